// Figures and elements: how the views write bytes, counts, times and shares, and how they build elements.
// Text of a trace gets into the page through `textContent` only; there is no HTML made from strings here.

const BYTE_UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

// One decimal; of two that are equally near the even one, as the program writes it.
function oneDecimal(value) {
  return value % 1 === 0.25 ? `${Math.floor(value)}.2` : value.toFixed(1);
}

// Bytes for people, as memlab writes them everywhere: `512 B`, `1.5 KiB`, `4.7 GiB`.
function iec(bytes) {
  if (bytes < 0) return '-' + iec(-bytes);
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < BYTE_UNITS.length) { value /= 1024; unit++; }
  return `${oneDecimal(value)} ${BYTE_UNITS[unit]}`;
}

// A whole number with separators: `592,258`.
function counted(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

// `1 block`, `2,000 blocks`.
function several(count, word) {
  return `${counted(count)} ${word}${count === 1 ? '' : 's'}`;
}

// Bytes for people and for machines: `2.0 MiB (2,097,152)`.
function iecExact(bytes) {
  return bytes < 1024 ? `${bytes} B` : `${iec(bytes)} (${counted(bytes)} bytes)`;
}

function share(part, whole) {
  return whole > 0 ? `${oneDecimal(part * 100 / whole)} %` : '0.0 %';
}

// A span of time: `15 µs`, `3.2 ms`, `1.250 s`, `2 min 5 s`.
function span(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 2 : 1)} ms`;
  if (us < 120e6) return `${(us / 1e6).toFixed(3)} s`;
  const seconds = Math.round(us / 1e6);
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

// Text of a trace as it may be shown: characters that steer instead of showing themselves are spelled out.
function shownText(text) {
  return text.replace(/[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e0fff}]/gu,
    letter => {
      const code = letter.codePointAt(0).toString(16);
      return code.length < 3 ? `\\x${code.padStart(2, '0')}` : `\\u{${code}}`;
    });
}

// The last part of a path, as recorded: enough to know a file by.
function fileTail(path) {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

function shortened(text, most) {
  return text.length <= most ? text : text.slice(0, Math.ceil(most * 0.6)) + '…' + text.slice(text.length - Math.floor(most * 0.4) + 1);
}

// An element with attributes and children; strings become text. `class`, `text` and handlers (`onclick`) are
// told apart by name.
function build(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') made.textContent = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

// A button; one that shows a sign and no word is named by its title.
function button(text, title, action) {
  const label = /\p{L}/u.test(text) ? null : title;
  return build('button', { type: 'button', class: 'tool', title, 'aria-label': label, onclick: action, text });
}

// A labelled choice; `options` are [value, text].
function choice(label, options, chosen, action) {
  const select = build('select', { onchange: event => action(event.target.value) },
    ...options.map(([value, text]) => build('option', { value, selected: value === chosen, text })));
  return build('label', { class: 'choice' }, build('span', { text: label }), select);
}

// A canvas as sharp as the screen; `size` fits it to a place and gives the context, scaled to CSS pixels.
function sizedContext(canvas, width, height) {
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  if (canvas.style.width !== `${width}px`) canvas.style.width = `${width}px`;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Runs `work` at most once per frame however often it is asked for.
function oncePerFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; work(); });
  };
}

// The colours of the page's theme, read anew when it changes.
function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const read = name => style.getPropertyValue(`--${name}`).trim();
  const colours = { bands: Array.from({ length: 10 }, (_, i) => read(`b${i}`)) };
  for (const name of ['panel', 'raised', 'ink', 'muted', 'grid', 'axis', 'focus', 'free', 'reserved', 'peak', 'oom',
    'step', 'other', 'unknown']) colours[name] = read(name);
  // Given back but still in use by another stream: a shade of its own, between a band and free.
  colours.pending = read('pending') || colours.step;
  return colours;
}

// Whether white text reads better than black on a colour (#rrggbb), by relative luminance.
function isDark(colour) {
  const value = parseInt(colour.slice(1, 7), 16);
  const linear = shift => { const c = ((value >> shift) & 255) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0) < 0.18;
}

// Calls `redraw` when the theme changes, by the system or by the page's switch.
function onThemeChange(redraw) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
}

function clamp(value, least, most) {
  return Math.max(least, Math.min(most, value));
}
