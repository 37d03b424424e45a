// A device of a report, decoded: names, kinds of allocations, segments, windows of rows, totals and times at any
// moment. Owns every question about the recording; views ask here and draw.

class Device {
  constructor(blob) {
    const header = blob.header;
    this.header = header;
    this.blob = blob;
    Object.assign(this, { events: header.events, complete: header.complete, strings: header.strings.map(shownText), tails: header.strings.map(text => shownText(fileTail(text))),
      peaks: header.peaks, ooms: header.ooms });
    const columns = part => Object.fromEntries(Object.entries(part).map(([key, ref]) =>
      [key, ref !== null && typeof ref === 'object' && 'at' in ref ? blob.column(ref) : ref]));
    this.kinds = columns(header.kinds);
    this.lines = columns(header.lines);
    this.frames = columns(header.frames);
    this.stacks = columns(header.stacks);
    this.places = columns(header.places);
    this.ranges = columns(header.ranges);
    this.steps = columns(header.steps);
    this.sizeBegins = (header.sizes ?? []).map(size => size.from);
    this.lineCount = header.lines.file.n;
    this.stepCount = header.steps.begin.n;
    this.regions = header.regions.map(text => BigInt(text));
    this.windows = header.windows.map(window => new Rows(blob, window, this.kinds.block));
    this.windows.forEach(rows => rows.index());
    // Of a recording with very many segments only those that a window sees are in this file.
    this.knowsSegments = !header.ranges_left_out;
    this.reserved = reservedSteps(this.ranges);
    this.levels = header.levels ? new Levels(blob, header.levels) : null;
    this.clock = Clock.of(this);
    this.groupingCache = new Map();
  }

  windowOver(m0, m1 = m0 + 1) {
    return this.windows.find(rows => rows.covers(m0, m1)) ?? null;
  }

  // Rows of large allocations, for moments of which nothing finer is recorded in this file.
  get large() {
    if (!this.header.large) return null;
    this.largeRows ??= new Rows(this.blob, { rows: this.header.large.rows, from: 0, to: this.events, times: null },
      this.kinds.block);
    return this.largeRows;
  }

  // What is known of a moment's totals. Outside the windows only bounds of the cell are.
  totalsAt(moment) {
    const rows = this.windowOver(moment);
    const reserved = this.reservedIn(moment, moment + 1);
    if (rows) {
      const i = moment - rows.from;
      return { exact: true, allocated: rows.allocated[i], active: rows.active[i], reserved };
    }
    const cell = this.levels.cellOf(moment);
    return { exact: false, reserved, lowest: this.levels.lowest[cell], highest: this.levels.highest[cell],
      from: cell * this.levels.width, to: Math.min(this.events, (cell + 1) * this.levels.width - 1) };
  }

  // The highest reserved bytes in [m0, m1); of whole cells where segments are left out of this file.
  reservedIn(m0, m1) {
    if (this.knowsSegments || this.windowOver(m0, m1)) return this.reserved.highest(m0, m1);
    return this.levels.reservedIn(m0, m1);
  }

  get highestTotal() {
    return Math.max(this.reserved.highest(0, this.events + 1), this.peaks.active.bytes, this.peaks.reserved.bytes, 1);
  }

  // A line as people read it: `train.py:100 step`; with the whole path when asked for.
  lineText(line, whole = false) {
    const { file, line: number, function: name } = this.lines;
    const at = (whole ? this.strings : this.tails)[file[line]] + (number[line] ? `:${number[line]}` : '');
    const called = this.strings[name[line]];
    return called ? `${at} ${called}` : at;
  }

  frameText(frame, whole = false) {
    const { file, line, function: name } = this.frames;
    const at = (whole ? this.strings : this.tails)[file[frame]] + (line[frame] ? `:${line[frame]}` : '');
    return { called: this.strings[name[frame]], at, path: this.strings[file[frame]] };
  }

  // Frames of a stack as kinds number it (0: none recorded), innermost first.
  framesOf(stack) {
    const found = [];
    for (let node = stack; node > 0; node = this.stacks.parent[node - 1]) found.push(this.stacks.frame[node - 1]);
    return found;
  }

  addressOf(place) {
    const { region, offset } = this.places;
    return '0x' + (this.regions[region[place]] + BigInt(offset[place])).toString(16);
  }

  // The step whose events lie around the birth of an allocation; -1 outside of every step.
  stepOfBirth(begin) {
    const { begin: begins, end } = this.steps;
    const step = lastAtMost(begins, begin - 1);
    return step >= 0 && begin <= end[step] ? step : -1;
  }

  stepName(step) {
    return this.strings[this.steps.name[step]];
  }

  // A step in words: `step 12`, or the name that it was given.
  stepText(step) {
    const name = this.stepName(step);
    return /^\d+$/.test(name) ? `step ${name}` : name;
  }

  // Everything there is to say of one allocation, as plain values.
  allocation(rows, row) {
    const kind = rows.kind[row];
    const kinds = this.kinds;
    const line = kinds.line[kind] - 1;
    const module = kinds.module[kind];
    const end = rows.freed[row];
    return {
      bytes: kinds.block[kind], requested: kinds.requested[kind], address: this.addressOf(rows.place[row]),
      born: rows.begin[row], freed: end === NEVER ? null : end, done: rows.done[row] === NEVER ? null : rows.done[row],
      line, lineText: line < 0 ? 'no line known' : this.lineText(line), inferred: kinds.inferred[kind] === 1,
      stack: kinds.stack[kind], stream: this.header.streams[kinds.stream[kind]] ?? '?',
      category: (this.header.categories[kinds.category[kind]] ?? 'unknown').replaceAll('_', ' '),
      module: module ? this.strings[this.header.modules[module - 1]] : null,
      step: this.stepOfBirth(rows.begin[row]),
    };
  }

  // One line of text for an allocation: `2.0 MiB (2,097,152 bytes) by train.py:17 step, since event 12`.
  allocationText(rows, row) {
    const it = this.allocation(rows, row);
    const since = it.born === 0 ? 'held from before the recording' : `allocated by event ${counted(it.born - 1)}`;
    return `${iecExact(it.bytes)}, ${it.lineText}, ${since}`;
  }

  // What the event before a moment did.
  changes(moment) {
    const rows = this.windowOver(moment);
    if (!rows) return [];
    const words = ['allocated', 'given back', 'out of use'];
    return rows.changesAt(moment)
      .filter(([row, what]) => !(what === OP_DONE && rows.freed[row] === moment))
      .map(([row, what]) => ({ what: words[what], rows, row, ...this.allocation(rows, row) }));
  }
}

// The last place in an ascending column whose value is at most `value`; -1 when there is none.
function lastAtMost(column, value, length = column.length) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// Reserved bytes over the moments, from when ranges came and went.
function reservedSteps(ranges) {
  const changes = [];
  for (let i = 0; i < ranges.bytes.length; i++) {
    changes.push([ranges.born[i], ranges.bytes[i]]);
    if (ranges.died[i]) changes.push([ranges.died[i], -ranges.bytes[i]]);
  }
  changes.sort((a, b) => a[0] - b[0]);
  const [moments, values] = [[0], [0]];
  for (const [moment, bytes] of changes) {
    if (moment !== moments[moments.length - 1]) { moments.push(moment); values.push(values[values.length - 1]); }
    values[values.length - 1] += bytes;
  }
  return new Steps(moments, values);
}

// A figure that changes seldom: values from given moments on.
class Steps {
  constructor(moments, values) {
    this.moments = Float64Array.from(moments);
    this.values = Float64Array.from(values);
  }

  at(moment) {
    return this.values[lastAtMost(this.moments, moment)] ?? 0;
  }

  // The highest value in [m0, m1).
  highest(m0, m1) {
    let i = Math.max(0, lastAtMost(this.moments, m0));
    let most = this.values[i];
    while (++i < this.values.length && this.moments[i] < m1) most = Math.max(most, this.values[i]);
    return most;
  }
}

// Times of moments. Between known times (only in recordings of which this file leaves events out) it is a
// straight line, which is good for an axis and is never shown as a figure.
class Clock {
  static of(device) {
    if (device.header.time_origin_us === null) return null;
    const whole = device.complete ? device.windows[0] : null;
    if (whole) return whole.times ? new Clock(null, whole.times) : null;
    const known = new Map();
    const starts = device.levels.starts;
    if (starts) starts.forEach((us, cell) => known.set(cell * device.levels.width, us));
    for (const rows of device.windows) rows.times?.forEach((us, i) => known.set(rows.from + i, us));
    if (known.size === 0) return null;
    const moments = Float64Array.from([...known.keys()].sort((a, b) => a - b));
    return new Clock(moments, Float64Array.from(moments, moment => known.get(moment)));
  }

  constructor(moments, times) {
    this.moments = moments;
    this.recorded = times;
    // Threads may hand in events a little out of order; an axis has to ascend.
    this.times = Float64Array.from(times);
    for (let i = 1; i < times.length; i++) this.times[i] = Math.max(this.times[i], this.times[i - 1]);
  }

  get last() {
    return this.times[this.times.length - 1];
  }

  // The recorded time of a moment, in µs since the first event; null where this file does not have it.
  known(moment) {
    if (!this.moments) return this.recorded[moment] ?? null;
    const i = lastAtMost(this.moments, moment);
    return i >= 0 && this.moments[i] === moment ? this.recorded[i] : null;
  }

  at(moment) {
    if (!this.moments) return this.times[clamp(moment, 0, this.times.length - 1)];
    const i = clamp(lastAtMost(this.moments, moment), 0, this.moments.length - 1);
    if (i + 1 >= this.moments.length) return this.times[i];
    const part = (moment - this.moments[i]) / (this.moments[i + 1] - this.moments[i]);
    return this.times[i] + part * (this.times[i + 1] - this.times[i]);
  }

  // The last moment that has begun at a time.
  momentAt(us) {
    const i = Math.max(0, lastAtMost(this.times, us));
    if (!this.moments) return i;
    if (i + 1 >= this.moments.length) return this.moments[i];
    const gap = this.times[i + 1] - this.times[i];
    const part = gap > 0 ? (us - this.times[i]) / gap : 0;
    return Math.floor(this.moments[i] + clamp(part, 0, 1) * (this.moments[i + 1] - this.moments[i]));
  }
}
