// The flame graph of a device: stacks by bytes, outermost frame on top. Owns its parts on the page, zoom, search and
// keys. Nodes are elements, so they are read out, found and focused; rows out of sight have none,
// and what is narrower than two pixels is left out.

const FLAME_ROW = 20;
const FLAME_LEAST = 2;

class Flame {
  constructor(section, device, focus) {
    Object.assign(this, { section, device, focus, measure: 'held', yours: false, zoomed: 0, wanted: '' });
    this.colours = themeColours();
    this.ranks = new Map();
    const { file, line } = device.lines;
    for (let i = device.lineCount - 1; i >= 0; i--) this.ranks.set(`${file[i]}:${line[i]}`, i);
    this.build();
    this.scroller.addEventListener('scroll', oncePerFrame(() => this.showRows()));
    const redraw = oncePerFrame(() => this.compute());
    focus.onChange(() => { if (this.measure === 'moment' && this.moment !== focus.moment) redraw(); });
    onThemeChange(() => { this.colours = themeColours(); this.render(); });
    let width = 0;
    new ResizeObserver(() => {
      if (this.area.clientWidth !== width) { width = this.area.clientWidth; this.render(); }
    }).observe(this.area);
    this.compute();
  }

  build() {
    const measures = Object.entries(FLAME_MEASURES);
    this.searchBox = build('input', { type: 'search', placeholder: 'function or file', 'aria-label': 'Search frames',
      oninput: event => this.search(event.target.value) });
    this.found = build('span', { class: 'found', 'aria-live': 'polite' });
    this.area = build('div', { class: 'flame-area', role: 'tree', 'aria-label': 'Stacks by bytes, outermost frame on top' });
    this.scroller = build('div', { class: 'flame-scroll' }, this.area);
    this.pointed = build('p', { class: 'pointed' });
    this.said = build('p', { class: 'view-said' });
    this.area.addEventListener('click', event => this.withNode(event, node => this.zoomTo(node)));
    this.area.addEventListener('pointerover', event => this.withNode(event, node => this.say(node)));
    this.area.addEventListener('focusin', event => this.withNode(event, node => this.say(node)));
    this.area.addEventListener('keydown', event => this.withNode(event, node => this.key(event, node)));
    const mount = this.section.querySelector('.mount') ?? this.section;
    mount.classList.add('memlab-view');
    mount.replaceChildren(build('div', { class: 'view-tools', role: 'group', 'aria-label': 'Flame graph' },
      choice('bytes', measures, 'held', name => this.setMeasure(name)),
      choice('frames', [['all', 'all'], ['yours', 'of your files']], 'all', value => { this.yours = value === 'yours'; this.compute(); }),
      build('label', { class: 'choice' }, build('span', { text: 'search' }), this.searchBox), this.found,
      button('Reset', 'Show the whole', () => this.zoomTo(0))), this.scroller, this.pointed, this.said);
  }

  setMeasure(name) {
    this.measure = name;
    this.compute();
  }

  search(text) {
    this.wanted = text.trim();
    this.render();
  }

  compute() {
    this.moment = this.focus.moment;
    const bytes = ownBytes(this.device, this.measure, this.moment);
    this.exact = bytes.exact;
    this.tree = flameTree(this.device, bytes, this.yours);
    this.zoomed = 0;
    this.render();
    Object.assign(this.section.dataset, { moment: this.moment, total: this.tree.sum[0] });
  }

  zoomTo(node) {
    this.zoomed = node;
    this.render();
    this.bring(node);
    this.area.querySelector(`[data-node="${node}"]`)?.focus({ preventScroll: true });
  }

  name(node) {
    const frame = this.tree.frame[node];
    if (frame === -1) return 'all';
    if (frame === -2) return 'no stack recorded';
    const { called, at } = this.device.frameText(frame);
    return `${called}  ${at}`;
  }

  // The path as well, so that a search for a folder finds.
  searchName(node) {
    const frame = this.tree.frame[node];
    return frame < 0 ? this.name(node) : `${this.name(node)} ${this.device.frameText(frame, true).path}`;
  }

  // Lays the tree out anew; elements are made for the rows in sight only.
  render() {
    if (!this.tree) return;
    const width = this.area.clientWidth;
    if (width === 0) return;
    const { places, hidden } = flamePlaces(this.tree, this.zoomed, width, FLAME_LEAST);
    this.rows = [];
    for (const place of places) (this.rows[this.tree.depth[place.node]] ??= []).push(place);
    this.matched = this.wanted ? flameSearch(this.tree, this.wanted, node => this.searchName(node)) : null;
    this.area.style.height = `${this.rows.length * FLAME_ROW}px`;
    this.showRows();
    const { matched } = this;
    setText(this.found, matched ? `matches hold ${iecExact(matched.bytes)}, ${share(matched.bytes, this.tree.sum[0])}` : '');
    this.section.dataset.matched = matched ? matched.bytes : '';
    this.sayWhole(hidden);
  }

  showRows() {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.max(0, Math.floor(scrollTop / FLAME_ROW) - 8);
    const last = Math.ceil((scrollTop + clientHeight) / FLAME_ROW) + 8;
    const focused = this.area.contains(document.activeElement) ? document.activeElement.dataset.node : null;
    const seen = this.rows.slice(first, last).flat();
    this.area.replaceChildren(...seen.map(place => this.element(place, this.matched)));
    if (!this.area.querySelector('[tabindex="0"]')) this.area.firstChild?.setAttribute('tabindex', '0');
    if (focused !== null) this.area.querySelector(`[data-node="${focused}"]`)?.focus({ preventScroll: true });
  }

  // Scrolls a node's row into sight.
  bring(node) {
    const y = this.tree.depth[node] * FLAME_ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop || y + FLAME_ROW > scrollTop + clientHeight) {
      this.scroller.scrollTop = y - clientHeight / 3;
      this.showRows();
    }
  }

  sayWhole(hidden) {
    const whole = `${FLAME_MEASURES[this.measure]}: ${iecExact(this.tree.sum[0])}.`;
    const left = hidden ? ` ${several(hidden, 'node')} too narrow to show: zoom in on the callers.` : '';
    const { large: known } = this.device.header;
    const large = this.exact ? '' : known ? ` Only blocks of at least ${iec(known.least_bytes)} are in this file at this moment.`
      : ' No single allocations are in this file at this moment.';
    setText(this.said, whole + left + large);
  }

  element({ node, x, w, above }, search) {
    const name = this.name(node);
    const made = build('div', { class: 'flame-frame', role: 'treeitem', tabindex: node === this.zoomed ? '0' : '-1', 'data-node': node,
      'aria-level': this.tree.depth[node] + 1, 'aria-label': `${name}, ${this.figures(node)}` });
    if (w > 24) made.textContent = name;
    made.style.left = `${x}px`;
    made.style.width = `${Math.max(1, w - 1)}px`;
    made.style.top = `${this.tree.depth[node] * FLAME_ROW}px`;
    const colour = this.colour(node);
    if (colour) {
      made.style.background = colour;
      made.classList.add(isDark(colour) ? 'on-dark' : 'on-light');
    }
    if (above) made.classList.add('above');
    if (search) made.classList.add(search.matches[node] ? 'match' : 'dim');
    return made;
  }

  // Frames on a line that has a colour of its own have it, others none.
  colour(node) {
    const frame = this.tree.frame[node];
    if (frame < 0) return frame === -2 ? this.colours.unknown : null;
    const { file, line } = this.device.frames;
    const rank = this.ranks.get(`${file[frame]}:${line[frame]}`);
    if (rank === undefined) return null;
    return rank < MOST_BANDS ? this.colours.bands[rank] : null;
  }

  figures(node) {
    const { sum, own } = this.tree;
    const ownText = own[node] > 0 && own[node] !== sum[node] ? `, of it ${iec(own[node])} right here` : '';
    return `${iecExact(sum[node])}, ${share(sum[node], sum[0])}${ownText}`;
  }

  say(node) {
    const frame = this.tree.frame[node];
    const where = frame < 0 ? '' : ` · ${this.device.frameText(frame, true).at}`;
    setText(this.pointed, `${this.name(node)} · ${this.figures(node)}${where}`);
  }

  withNode(event, action) {
    const target = event.target.closest?.('[data-node]');
    if (target) action(Number(target.dataset.node));
  }

  key(event, node) {
    const { tree } = this;
    const siblings = node > 0 ? tree.children[tree.parent[node]] : [0];
    const at = siblings.indexOf(node);
    const actions = {
      ArrowUp: () => this.focusNode(tree.parent[node]), ArrowDown: () => this.focusNode(tree.children[node][0]),
      ArrowLeft: () => this.focusNode(siblings[at - 1]), ArrowRight: () => this.focusNode(siblings[at + 1]),
      Enter: () => this.zoomTo(node), ' ': () => this.zoomTo(node), Escape: () => this.zoomTo(0), Home: () => this.focusNode(this.zoomed),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  focusNode(node) {
    if (node === undefined || node < 0) return;
    this.bring(node);
    const element = this.area.querySelector(`[data-node="${node}"]`);
    if (!element) return;
    this.area.querySelectorAll('[tabindex="0"]').forEach(other => other.setAttribute('tabindex', '-1'));
    element.setAttribute('tabindex', '0');
    element.focus();
  }
}
