// Tables that sort, search and copy. Long ones take their rows from the report's blob, all others keep those that
// stand in the page. Text of a trace becomes text nodes only.
const Tables = (() => {
  const FIRST = 100;
  const CHUNK = 200;
  const SVG = "http://www.w3.org/2000/svg";
  // More rows than this are searched; more than that are scrolled.
  const MANY = 8;
  const LONG = 30;
  // Their rows have an order of their own.
  const IN_ORDER = ["counters", "fragmentation", "causes", "driver-sums"];

  // --- Cells and rows -------------------------------------------------------------------------------------

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function drawing(width, height, name, ...rects) {
    const svg = document.createElementNS(SVG, "svg");
    const attributes = { class: name, width, height, "aria-hidden": "true" };
    for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
    for (const attributes of rects) {
      const rect = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ height, ...attributes })) rect.setAttribute(key, value);
      svg.append(rect);
    }
    return svg;
  }

  function figure(kind, value, whole, band) {
    if (value == null && kind !== "event") return element("td", { class: "number" }, "-");
    if (kind === "bytes" || kind === "change") {
      const attributes = { class: "number", "data-bytes": value, title: `${Words.count(value)} bytes` };
      return element("td", attributes, kind === "bytes" ? Words.bytes(value) : Words.change(value));
    }
    if (kind === "share") {
      const width = whole === 0 ? 0 : Math.min(48, Math.max(0, (value / whole) * 48));
      const bar = drawing(48, 8, "bar", { width: 48, class: "track" }, { width: width.toFixed(1), class: band });
      return element("td", { class: "number", "data-part": value }, Words.percent(value, whole), bar);
    }
    if (kind === "event" && value == null) {
      return element("td", { class: "number", "data-count": -1 }, "before the first");
    }
    return element("td", { class: "number", "data-count": value }, Words.count(value));
  }

  function words(text) {
    return text ? element("td", { class: "name" }, element("bdi", {}, text)) : element("td", {}, "-");
  }

  function folded(name, lines, marked, file) {
    const text = element("pre");
    lines.forEach((line, index) => {
      text.append(index === marked ? element("mark", {}, line) : line, index + 1 < lines.length ? "\n" : "");
    });
    const summary = element("summary", {}, file ? `${name}: ` : name);
    if (file) summary.append(element("bdi", {}, file));
    return element("details", { class: name }, summary, text);
  }

  function lineHead(row, rank) {
    const band = rank < 10 ? `b${rank}` : "other";
    const name = element("bdi", {}, Words.label(row));
    const swatch = drawing(10, 10, "swatch", { width: 10, rx: 2, class: band });
    const head = element("th", { scope: "row", class: "name" }, swatch, name);
    if (row.inferred_bytes > 0) {
      const title = `${Words.count(row.inferred_bytes)} bytes of it are inferred`;
      head.append(" ", element("span", { class: "mark", title }, "inferred"));
    }
    if (row.stack) {
      head.append(folded("stack", row.stack.slice(0, 40).map((frame) => Words.cleanEnd(frame, 200))));
    }
    if (row.source) {
      const { file, first, text } = row.source;
      const numbered = text.map((line, index) => `${String(first + index).padStart(6)}  ${Words.clean(line)}`);
      head.append(folded("source", numbered, row.line - first, Words.cleanEnd(file ?? "", 400)));
    }
    return head;
  }

  function nameHead(text) {
    return element("th", { scope: "row", class: "name" }, element("bdi", {}, text));
  }

  // How the rows of the report become rows of a table.
  const FROM_REPORT = {
    lines: {
      rows: (device) => device.lines,
      label: Words.label,
      head: lineHead,
      band: (rank) => (rank < 10 ? `b${rank}` : "other"),
    },
    steps: {
      rows: (device) => device.steps.rows,
      label: (row) => Words.cleanEnd(row.name, 400),
      head: (row) => nameHead(Words.cleanEnd(row.name, 400)),
      band: () => "share",
    },
    modules: {
      rows: (device) => device.modules?.rows,
      label: (row) => Words.cleanEnd(row.module, 400),
      head: (row) => nameHead(Words.cleanEnd(row.module, 400)),
      band: () => "share",
    },
  };

  function lookUp(row, key) {
    return key.split(".").reduce((value, name) => value?.[name], row);
  }

  function reportRows(source, device, columns) {
    const whole = device.peak.allocated_bytes;
    return source.rows(device).map((row, rank) => {
      const values = columns.map(({ key, kind }, index) => {
        if (index === 0) return source.label(row);
        const value = lookUp(row, key);
        return kind === "words" ? (value ? Words.place(value) : "") : value ?? null;
      });
      let made = null;
      const make = () => {
        const cells = columns.slice(1).map(({ kind }, index) => {
          const value = values[index + 1];
          return kind === "words" ? words(value) : figure(kind, value, whole, source.band(rank));
        });
        return element("tr", {}, source.head(row, rank), ...cells);
      };
      const text = [values[0], row.file, row.function].join(" ");
      return { values, text, node: () => (made ??= make()) };
    });
  }

  function pageRows(body, columns) {
    const value = (cell, kind) => {
      if (kind === "words") return cell.querySelector("bdi")?.textContent ?? cell.textContent;
      const exact = cell.dataset.bytes ?? cell.dataset.count ?? cell.dataset.part;
      return exact == null ? null : Number(exact);
    };
    return Array.from(body.rows, (row) => {
      const values = columns.map(({ kind }, index) => value(row.cells[index], kind));
      return { values, text: row.textContent, node: () => row };
    });
  }

  // --- One table ------------------------------------------------------------------------------------------

  class SortedTable {
    constructor(box, trace) {
      this.box = box;
      this.word = box.dataset.rowWord;
      this.body = box.querySelector("tbody");
      this.heads = Array.from(box.querySelectorAll("thead th"));
      this.columns = this.heads.map((head) => ({ ...head.dataset, label: head.textContent }));
      this.whole = null;
      const device = trace?.devices?.[box.dataset.place];
      const source = FROM_REPORT[box.dataset.table];
      // The report's blob is cut where a trace names very much: never show less than the page did.
      if (device && source?.rows(device)?.length >= this.body.rows.length) {
        this.rows = reportRows(source, device, this.columns);
        this.whole = device.peak.allocated_bytes;
        this.restOfReport(device);
      } else {
        this.rows = pageRows(this.body, this.columns);
      }
      this.found = this.rows;
      this.shown = FIRST;
      this.sorting = null;
      if (this.rows.length > 1 && !IN_ORDER.includes(box.dataset.table)) this.addSorting();
      if (this.rows.length > MANY || FROM_REPORT[box.dataset.table]) this.addTools();
      this.render();
    }

    // With all rows at hand, only what the report itself leaves out is missing.
    restOfReport(device) {
      this.box.querySelector("[data-rest='more']")?.remove();
      const kind = this.box.dataset.table;
      const left = {
        lines: device.lines_left_out,
        steps: device.steps.rows_left_out,
        modules: device.modules?.rows_left_out,
      }[kind] ?? 0;
      if (left === 0) return;
      const row = element("tr", { "data-rest": "more" });
      row.append(element("th", { scope: "row" }, `${Words.count(left)} more, not in this page`));
      let cells = this.columns.slice(1).map(() => figure("bytes", null));
      if (kind === "lines") {
        const known = device.lines.reduce((sum, line) => sum + line.held_at_peak_bytes, 0);
        const held = Math.max(0, this.whole - known - device.unattributed.held_at_peak_bytes);
        cells = cells.map((cell, index) => {
          if (index > 1) return cell;
          return index === 0 ? figure("bytes", held) : figure("share", held, this.whole, "other");
        });
      }
      row.append(...cells);
      this.box.querySelector("table").createTFoot().prepend(row);
    }

    addSorting() {
      this.heads.forEach((head, index) => {
        const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
        const button = element("button", { type: "button" }, this.columns[index].label, arrow);
        button.addEventListener("click", () => this.sort(index));
        head.replaceChildren(button);
        if (head.getAttribute("aria-sort") === "descending") this.sorting = { index, down: true };
      });
      this.showArrows();
    }

    addTools() {
      const search = element("input", { type: "search", "aria-label": `Search for a ${this.word}` });
      search.placeholder = `Search for a ${this.word}`;
      search.addEventListener("input", () => this.search(search.value));
      const copies = ["TSV", "Markdown"].map((format) => {
        const button = element("button", { type: "button" }, `Copy as ${format}`);
        button.addEventListener("click", () => this.copy(format));
        return button;
      });
      this.status = element("span", { class: "status", role: "status" });
      this.more = element("button", { type: "button" });
      this.more.addEventListener("click", () => {
        this.shown += CHUNK;
        this.render();
      });
      this.box.prepend(element("div", { class: "tools" }, search, ...copies, this.status));
      this.box.append(element("div", { class: "below" }, this.more));
    }

    sort(index) {
      const isWords = this.columns[index].kind === "words";
      const again = this.sorting?.index === index;
      const down = again ? !this.sorting.down : !isWords;
      this.sorting = { index, down };
      const sign = down ? -1 : 1;
      const compare = (one, other) => {
        const [a, b] = [one.values[index], other.values[index]];
        if (a == null || b == null) return (a == null) - (b == null);
        return sign * (isWords ? a.localeCompare(b, "en", { numeric: true }) : a - b);
      };
      this.rows = this.rows.slice().sort(compare);
      this.showArrows();
      this.search(this.query ?? "");
    }

    showArrows() {
      this.heads.forEach((head, index) => {
        const isIt = this.sorting?.index === index;
        const arrow = head.querySelector(".arrow");
        if (arrow) arrow.textContent = isIt ? (this.sorting.down ? "▾" : "▴") : "";
        if (isIt) head.setAttribute("aria-sort", this.sorting.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
    }

    search(query) {
      this.query = query;
      const wanted = query.trim().toLowerCase();
      this.found = wanted ? this.rows.filter((row) => row.text.toLowerCase().includes(wanted)) : this.rows;
      this.shown = FIRST;
      this.render();
    }

    render() {
      const rows = this.found.slice(0, this.shown).map((row) => row.node());
      this.body.replaceChildren(...rows);
      this.box.classList.toggle("long", rows.length > LONG);
      if (!this.status) return;
      this.status.textContent = this.summary(rows.length);
      const left = this.found.length - rows.length;
      this.more.hidden = left <= 0;
      this.more.textContent = `Show ${Math.min(left, CHUNK)} more of ${Words.count(left)}`;
    }

    summary(shown) {
      const plural = this.word.endsWith("y") ? `${this.word.slice(0, -1)}ies` : `${this.word}s`;
      const number = (count) => `${Words.count(count)} ${count === 1 ? this.word : plural}`;
      let text = `${number(this.found.length)}${this.found.length < this.rows.length ? " found" : ""}`;
      if (shown < this.found.length) text += `, ${Words.count(shown)} shown`;
      const held = this.columns.findIndex(({ key, kind }) => key === "held_at_peak_bytes" && kind === "bytes");
      if (this.query && held >= 0) {
        const sum = this.found.reduce((sum, row) => sum + (row.values[held] ?? 0), 0);
        text += `, ${Words.bytes(sum)} at the peak`;
      }
      return text;
    }

    async copy(format) {
      const text = format === "TSV" ? this.separated() : this.markdown();
      const done = await copyText(text);
      this.status.textContent = done
        ? `Copied ${Words.count(this.found.length)} rows as ${format}.`
        : "The browser does not let this page copy.";
    }

    // Exact figures; a spreadsheet shall not take a name for a formula.
    separated() {
      const cell = (value, kind) => {
        if (kind !== "words") return value ?? "";
        const text = String(value).replace(/[\t\r\n]/g, " ");
        return /^[=+@-]/.test(text) ? `'${text}` : text;
      };
      const kept = this.columns.map((column, index) => index).filter((index) => this.columns[index].kind !== "share");
      const lines = [kept.map((index) => this.columns[index].key)];
      for (const row of this.found) lines.push(kept.map((index) => cell(row.values[index], this.columns[index].kind)));
      return lines.map((line) => line.join("\t")).join("\n") + "\n";
    }

    markdown() {
      const text = (value) => value.replace(/[\\`*_[\]|~$<>&]/g, (letter) => `&#${letter.charCodeAt(0)};`);
      const cell = (value, kind) => {
        if (kind === "words") return text(String(value));
        if (value == null) return "-";
        if (kind === "bytes") return Words.bytes(value);
        if (kind === "change") return Words.change(value);
        if (kind === "share") return Words.percent(value, this.whole ?? 0);
        return kind === "event" && value < 0 ? "before the first" : Words.count(value);
      };
      const kept = this.columns.map((column, index) => index);
      const columns = this.whole == null ? kept.filter((index) => this.columns[index].kind !== "share") : kept;
      const line = (cells) => `| ${cells.join(" | ")} |`;
      const lines = [
        line(columns.map((index) => this.columns[index].label)),
        line(columns.map((index) => (this.columns[index].kind === "words" ? "---" : "--:"))),
      ];
      for (const row of this.found) {
        lines.push(line(columns.map((index) => cell(row.values[index], this.columns[index].kind))));
      }
      return lines.join("\n") + "\n";
    }
  }

  // Pages opened from a file have no clipboard in some browsers; a selected text field can be copied anywhere.
  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = element("textarea", { class: "unseen", "aria-hidden": "true" });
      const focused = document.activeElement;
      field.value = text;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      focused?.focus();
      return done;
    }
  }

  // Only what can be scrolled is a stop for the keyboard.
  function watchScrolling(root) {
    const watcher = new ResizeObserver((entries) => {
      for (const { target: table } of entries) {
        const frame = table.parentElement;
        const fits = frame.scrollWidth <= frame.clientWidth && frame.scrollHeight <= frame.clientHeight;
        frame.tabIndex = fits ? -1 : 0;
      }
    });
    for (const table of root.querySelectorAll(".scroll > table")) watcher.observe(table);
  }

  function start(root, trace) {
    watchScrolling(root);
    for (const box of root.querySelectorAll(".table")) {
      try {
        new SortedTable(box, trace);
      } catch (fault) {
        box.append(element("p", { class: "fault" }, `This table cannot be sorted: ${fault.message}.`));
      }
    }
  }

  return Object.freeze({ start });
})();
