// The allocator's state at a moment, computed: segments, the blocks in them, holes, who pins the holes, and the
// sums. Owns what is where; how it is laid out and painted is state-map.js's.

// {segments, sums, pins, exact, least}. Segments are in order of address. Outside the windows of an incomplete
// recording only blocks of at least `least` bytes are known, and `exact` is false.
function stateAt(device, moment) {
  const rows = device.windowOver(moment);
  const segments = segmentsAt(device, moment);
  const shown = rows ?? device.large;
  if (shown) placeBlocks(device, shown, moment, segments);
  const exact = rows !== null;
  return { moment, exact, rows: shown, segments, sums: stateSums(device, segments),
    pins: exact ? pinsOf(device, shown, segments) : [],
    least: exact ? 0 : device.header.large?.least_bytes ?? null, totals: device.totalsAt(moment) };
}

// Places (regions and offsets) as ranks by address, so that rows can be sorted by a number.
function addressOrder({ region, offset }) {
  const order = Array.from(region, (_, i) => i);
  return order.sort((a, b) => region[a] - region[b] || offset[a] - offset[b]);
}

// Live ranges by address; ranges of an expandable segment that touch are one segment.
function segmentsAt(device, moment) {
  const { ranges } = device;
  device.rangeOrder ??= addressOrder(ranges);
  const segments = [];
  for (const i of device.rangeOrder) {
    if (ranges.born[i] > moment || (ranges.died[i] !== 0 && ranges.died[i] <= moment)) continue;
    const last = segments[segments.length - 1];
    const joins = last && ranges.expandable[i] && last.expandable && last.region === ranges.region[i]
      && last.offset + last.bytes === ranges.offset[i] && last.stream === ranges.stream[i]
      && last.pool === ranges.pool[i] && last.small === ranges.small[i];
    if (joins) { last.bytes += ranges.bytes[i]; continue; }
    segments.push({ region: ranges.region[i], offset: ranges.offset[i], bytes: ranges.bytes[i], stream: ranges.stream[i],
      pool: ranges.pool[i], small: ranges.small[i], expandable: ranges.expandable[i], blocks: [], allocated: 0, pending: 0 });
  }
  return segments;
}

// Puts every active row into its segment, in order of address. `start` is the block's place in its segment.
function placeBlocks(device, rows, moment, segments) {
  const { places, kinds } = device;
  device.placeRank ??= ranksOf(addressOrder(places));
  const active = rows.activeAt(moment);
  const sorted = Float64Array.from(active, (row, i) => device.placeRank[rows.place[row]] * 2 ** 26 + i).sort();
  let at = 0;
  for (const key of sorted) {
    const row = active[key % 2 ** 26];
    const [region, offset] = [places.region[rows.place[row]], places.offset[rows.place[row]]];
    while (at < segments.length && (segments[at].region < region
      || (segments[at].region === region && segments[at].offset + segments[at].bytes <= offset))) at++;
    const segment = segments[at];
    if (!segment || segment.region !== region || offset < segment.offset) continue;
    const pending = rows.freed[row] <= moment;
    const bytes = rows.bytes[row];
    segment.blocks.push({ row, pending, bytes, start: offset - segment.offset, requested: kinds.requested[rows.kind[row]] });
    if (pending) segment.pending += bytes; else segment.allocated += bytes;
  }
}

function ranksOf(order) {
  const ranks = new Int32Array(order.length);
  order.forEach((place, rank) => { ranks[place] = rank; });
  return ranks;
}

function stateSums(device, segments) {
  const sums = { reserved: 0, allocated: 0, pending: 0, stranded: 0, releasable: 0, segments: segments.length, blocks: 0 };
  for (const segment of segments) {
    const free = segment.bytes - segment.allocated - segment.pending;
    sums.reserved += segment.bytes;
    sums.allocated += segment.allocated;
    sums.pending += segment.pending;
    sums.blocks += segment.blocks.length;
    if (segment.blocks.length > 0) sums.stranded += free; else sums.releasable += free;
  }
  return { ...sums, active: sums.allocated + sums.pending, device: device.header.device };
}

// Per line: free bytes of the segments in which it has a block, and of those that no other line pins.
function pinsOf(device, rows, segments) {
  const pins = new Map();
  for (const segment of segments) {
    const free = segment.bytes - segment.allocated - segment.pending;
    if (segment.blocks.length === 0 || free === 0) continue;
    const here = new Map();
    for (const block of segment.blocks) {
      const line = device.kinds.line[rows.kind[block.row]] - 1;
      here.set(line, (here.get(line) ?? 0) + block.bytes);
    }
    segment.pinnedBy = [...here.keys()].sort((a, b) => here.get(b) - here.get(a));
    for (const line of here.keys()) {
      const pin = pins.get(line) ?? { line, bytes: 0, sole: 0, segments: 0 };
      pin.bytes += free;
      pin.segments++;
      if (here.size === 1) pin.sole += free;
      pins.set(line, pin);
    }
  }
  return [...pins.values()].sort((a, b) => b.bytes - a.bytes || a.line - b.line);
}
