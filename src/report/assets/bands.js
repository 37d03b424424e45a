// Bands: how rows are grouped (by line, category, module, step, stream, size) and what each group holds at a
// moment. Owns groups, their names and colours, and the keyframes that make any moment's sums a short replay.

const MOST_BANDS = 10;
// Ways to group: title, key of every kind (`ofKind`) or row (`ofRow`), its name, and what key 0 stands for
// (`none`: nothing is known). Where the file counts groups from 0, keys are one more (`from0`). `shown` hides a
// switch that would show a single band.
const GROUPINGS = {
  line: { title: 'line', none: 'no line known', ofKind: (device, kind) => device.kinds.line[kind],
    label: (device, key) => device.lineText(key - 1), full: (device, key) => device.lineText(key - 1, true),
    shown: () => true },
  category: { title: 'category', none: 'none known', from0: true,
    ofKind: (device, kind) => {
      const category = device.kinds.category[kind];
      return device.header.categories[category] === 'unknown' ? 0 : category + 1;
    },
    label: (device, key) => device.header.categories[key - 1].replaceAll('_', ' '),
    shown: device => device.header.categories.length > 1 },
  module: { title: 'module', ofKind: (device, kind) => device.kinds.module[kind], none: 'no module known',
    label: (device, key) => device.strings[device.header.modules[key - 1]],
    shown: device => device.header.modules.length > 0 },
  step: { title: 'step of birth', none: 'outside of steps',
    ofRow: (device, rows, row) => device.stepOfBirth(rows.begin[row]) + 1,
    label: (device, key) => device.stepText(key - 1), shown: device => device.stepCount > 0 },
  stream: { title: 'stream', from0: true, ofKind: (device, kind) => device.kinds.stream[kind] + 1, none: 'none known',
    label: (device, key) => key === 1 ? `main stream ${device.header.streams[0]}`
      : `stream ${device.header.streams[key - 1]}`,
    shown: device => device.header.streams.length > 1 },
  size: { title: 'block size', none: 'none known', from0: true,
    ofKind: (device, kind) => lastAtMost(device.sizeBegins, device.kinds.block[kind]) + 1,
    label: (device, key) => device.strings[device.header.sizes[key - 1].name],
    shown: device => device.sizeBegins.length > 1 },
};

// Names of the groupings that have something to show on a device.
function groupingsOf(device) {
  return Object.keys(GROUPINGS).filter(name => GROUPINGS[name].shown(device)
    && (device.complete || device.levels.header[name]));
}

// The bands of one grouping on one device. A band is {key, label, full, colour}; colour is a rank or 'other' or
// 'unknown'. Bands keep their order and colour at every zoom.
class Grouping {
  static of(device, name) {
    if (!device.groupingCache.has(name)) device.groupingCache.set(name, new Grouping(device, name));
    return device.groupingCache.get(name);
  }

  constructor(device, name) {
    Object.assign(this, { device, name, rule: GROUPINGS[name], tables: new Map() });
    const keys = device.complete ? this.rankedKeys() : null;
    this.bands = keys ? this.bandsOf(keys) : this.bandsOfLevels();
    this.slots = new Map(this.bands.map((band, slot) => [band.key, slot]));
    this.otherSlot = this.bands.findIndex(band => band.colour === 'other');
    this.noneSlot = this.bands.findIndex(band => band.colour === 'unknown');
  }

  // The key of every row.
  keysOf(rows) {
    if (this.keys?.rows === rows) return this.keys.values;
    const { ofKind, ofRow } = this.rule;
    const values = new Int32Array(rows.count);
    if (ofRow) {
      for (let row = 0; row < rows.count; row++) values[row] = ofRow(this.device, rows, row);
    } else {
      const ofKinds = Int32Array.from(this.device.kinds.block, (_, kind) => ofKind(this.device, kind));
      for (let row = 0; row < rows.count; row++) values[row] = ofKinds[rows.kind[row]];
    }
    this.keys = { rows, values };
    return values;
  }

  // Keys by bytes held at the peak, then by bytes of all time. Lines come ranked.
  rankedKeys() {
    const rows = this.device.windows[0];
    const keys = this.keysOf(rows);
    const peak = this.device.peaks.allocated.moment;
    const most = keys.reduce((most, key) => Math.max(most, key), 0);
    const [held, total] = [new Float64Array(most + 1), new Float64Array(most + 1)];
    for (let row = 0; row < rows.count; row++) {
      total[keys[row]] += rows.bytes[row];
      if (rows.isAllocated(row, peak)) held[keys[row]] += rows.bytes[row];
    }
    const found = Array.from(total.keys()).filter(key => total[key] > 0);
    return this.name === 'line' ? found : found.sort((a, b) => held[b] - held[a] || total[b] - total[a] || a - b);
  }

  bandsOf(keys) {
    const named = keys.filter(key => key > 0);
    const isLine = this.name === 'line';
    // A line below the tenth rank is grey wherever it stands, so it has no band of its own here either.
    const own = isLine ? named.filter(key => key <= MOST_BANDS) : named.slice(0, MOST_BANDS);
    const bands = own.map((key, rank) => this.band(key, isLine ? key - 1 : rank));
    const others = named.length - bands.length;
    if (others > 0) bands.push({ key: null, label: `others (${counted(others)})`, full: '', colour: 'other' });
    if (keys.includes(0)) bands.push({ key: 0, label: this.rule.none, full: '', colour: 'unknown' });
    return bands;
  }

  band(key, colour) {
    const { label, full } = this.rule;
    return { key, label: label(this.device, key), full: full ? full(this.device, key) : label(this.device, key), colour };
  }

  // Bands as the file cut them; the last two without a key are the remainders.
  bandsOfLevels() {
    const { keys: filed, names } = this.device.levels.bands(this.name);
    const keys = filed.map(key => (key !== null && this.rule.from0 ? key + 1 : key));
    const unnamed = keys.map((key, at) => [key, at]).filter(([key]) => key === null).map(([, at]) => at);
    return keys.map((key, at) => {
      const label = this.device.strings[names[at]];
      if (key === null) return { key: at === unnamed[unnamed.length - 1] ? 0 : null, label, full: '',
        colour: at === unnamed[unnamed.length - 1] ? 'unknown' : 'other' };
      const rank = this.name === 'line' ? key - 1 : at;
      const full = this.name === 'line' ? this.device.lineText(key - 1, true) : label;
      const short = this.name === 'line' ? this.device.lineText(key - 1) : label;
      return { key, label: short, full, colour: rank < MOST_BANDS ? rank : 'other' };
    });
  }

  slotOf(key) {
    return this.slots.get(key) ?? (key === 0 ? this.noneSlot : this.otherSlot);
  }

  // The band of every row.
  groups(rows) {
    return this.table(rows).groups;
  }

  table(rows) {
    if (!this.tables.has(rows)) {
      const slots = Uint8Array.from(this.keysOf(rows), key => this.slotOf(key));
      this.tables.set(rows, new BandTable(rows, slots, this.bands.length));
    }
    return this.tables.get(rows);
  }
}

// Bytes per band at every moment of a window: keyframes at even distances, and a cursor that replays from the
// nearest one. Per distance also each band's maximum, so that maxima of long spans need no replay.
class BandTable {
  constructor(rows, groups, width) {
    const length = rows.to - rows.from + 1;
    this.stride = Math.max(64, Math.ceil(length / 4096));
    this.cells = Math.ceil(length / this.stride);
    Object.assign(this, { rows, groups, width, sums: new Float64Array(width), at: -1 });
    this.frames = new Float64Array(this.cells * width);
    this.most = new Float64Array(this.cells * width);
    this.mostAt = new Int32Array(this.cells * width);
    this.fill(length);
  }

  fill(length) {
    const { rows, groups, width, sums } = this;
    for (let row = 0; row < rows.count && rows.begin[row] <= rows.from; row++) {
      if (rows.freed[row] > rows.from) sums[groups[row]] += rows.bytes[row];
    }
    for (let i = 0; i < length; i++) {
      const base = Math.floor(i / this.stride) * width;
      if (i > 0) this.apply(i);
      if (i % this.stride === 0) {
        this.frames.set(sums, base);
        this.most.set(sums, base);
        this.mostAt.fill(i + rows.from, base, base + width);
      } else {
        for (let k = rows.opAt[i]; k < rows.opAt[i + 1]; k++) {
          const group = groups[rows.ops[k] >> 2];
          if (sums[group] > this.most[base + group]) {
            this.most[base + group] = sums[group];
            this.mostAt[base + group] = i + rows.from;
          }
        }
      }
    }
    this.at = length - 1;
  }

  apply(i) {
    const { rows, groups, sums } = this;
    for (let k = rows.opAt[i]; k < rows.opAt[i + 1]; k++) {
      const op = rows.ops[k];
      const row = op >> 2;
      const what = op & 3;
      if (what === OP_FREED) sums[groups[row]] -= rows.bytes[row];
      else if (what === OP_BEGIN && rows.freed[row] > rows.begin[row]) sums[groups[row]] += rows.bytes[row];
    }
  }

  // Sums per band at a moment, in an array that the next call overwrites.
  seek(moment) {
    const i = moment - this.rows.from;
    const cell = Math.floor(i / this.stride);
    if (this.at > i || this.at < cell * this.stride) {
      this.at = cell * this.stride;
      this.sums.set(this.frames.subarray(cell * this.width, (cell + 1) * this.width));
    }
    while (this.at < i) this.apply(++this.at);
    return this.sums;
  }

  // Every band's exact maximum in [m0, m1), with its first moment.
  maxima(m0, m1) {
    const { rows, stride, width } = this;
    const found = Array.from(this.seek(m0), bytes => ({ bytes, moment: m0 }));
    const take = (band, bytes, moment) => { if (bytes > found[band].bytes) found[band] = { bytes, moment }; };
    let i = m0 - rows.from + 1;
    const end = m1 - rows.from;
    while (i < end) {
      if (i % stride === 0 && i + stride <= end) {
        const base = i / stride * width;
        for (let band = 0; band < width; band++) take(band, this.most[base + band], this.mostAt[base + band]);
        i += stride;
      } else {
        const sums = this.seek(i + rows.from);
        for (let band = 0; band < width; band++) take(band, sums[band], i + rows.from);
        i++;
      }
    }
    return found;
  }
}
