// Figures and names in words, as the rest of memlab writes them.
const Words = (() => {
  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

  // One decimal. Of two that are equally near the even one, as in the parts of the page made beforehand.
  function decimal(value) {
    return value % 1 === 0.25 ? `${Math.floor(value)}.2` : value.toFixed(1);
  }

  function bytes(count) {
    if (count < 1024) return `${count} B`;
    let value = count / 1024;
    let unit = 0;
    while (value >= 1023.95 && unit + 1 < UNITS.length) {
      value /= 1024;
      unit += 1;
    }
    return `${decimal(value)} ${UNITS[unit]}`;
  }

  function change(count) {
    if (count === 0) return "0 B";
    return (count > 0 ? "+" : "-") + bytes(Math.abs(count));
  }

  function count(number) {
    return number.toLocaleString("en-US");
  }

  function percent(part, whole) {
    return whole === 0 ? "0.0 %" : `${decimal((part * 100) / whole)} %`;
  }

  // Characters that steer instead of showing themselves are spelled out.
  const INVISIBLE =
    /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e0fff}]/gu;
  const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  function clean(text) {
    return String(text).replace(INVISIBLE, (letter) => {
      const code = letter.codePointAt(0).toString(16);
      return SHORT[letter] ?? (code.length < 3 ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`);
    });
  }

  function keepEnd(text, most) {
    const letters = Array.from(text);
    return letters.length <= most ? text : `…${letters.slice(letters.length - most + 1).join("")}`;
  }

  function keepStart(text, most) {
    const letters = Array.from(text);
    return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
  }

  // Clean text of at most so many letters, of which the end or the beginning says most.
  const cleanEnd = (text, most) => keepEnd(clean(keepEnd(text, most)), most);
  const cleanStart = (text, most) => keepStart(clean(keepStart(text, most)), most);

  // How people read a source position: `train.py:100 step`.
  function place({ file, line, function: name }) {
    const shown = cleanEnd(file ?? "", 120) + (line == null ? "" : `:${line}`);
    return name == null ? shown : `${shown} ${cleanStart(name, 120)}`;
  }

  function label(row) {
    if (row.module != null) return cleanEnd(row.module, 400);
    if (row.stack?.length) return cleanEnd(row.stack[0], 400);
    return place(row);
  }

  return Object.freeze({ bytes, change, count, percent, clean, cleanEnd, place, label });
})();
