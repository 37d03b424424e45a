// What a timeline shows at a zoom: the axis (events or time), and runs, i.e. stretches of the picture that show
// one state each. A run of many moments shows the one with the highest total, so no peak is lost at any zoom.

// The horizontal axis. Units are moments or µs; moment m fills the stretch from unit(m) to unit(m + 1).
class TimelineAxis {
  constructor(device, mode) {
    Object.assign(this, { device, mode, timed: mode === 'time' });
    this.end = this.timed ? device.clock.last * 1.002 + 1 : device.events + 1;
  }

  unit(moment) {
    if (!this.timed) return moment;
    return moment > this.device.events ? this.end : this.device.clock.at(moment);
  }

  momentAt(unit) {
    const moment = this.timed ? this.device.clock.momentAt(unit) : Math.floor(unit);
    return clamp(moment, 0, this.device.events);
  }

  // The narrowest stretch that a view may show: one moment, or one µs.
  get least() {
    return 1;
  }
}

// Runs of a view from left to right: {x0, x1, m0, m1, moment, low, rows}, in pixels of the plot; `moment` has the
// highest total of [m0, m1), `low` the lowest. `rows` is null where only a coarse cell is known (`cell`).
function runsOf(device, axis, view, width, pixel) {
  const scale = width / (view.b - view.a);
  const xOf = moment => (axis.unit(moment) - view.a) * scale;
  const runs = [];
  let x = 0;
  while (x < width - pixel / 2) {
    const m0 = axis.momentAt(view.a + (x + pixel / 4) / scale);
    let m1 = m0 + 1;
    let x1 = xOf(m1);
    if (m1 > device.events) x1 = Math.max(x1, width);
    if (x1 <= x + pixel) {
      x1 = x + pixel;
      m1 = clamp(axis.momentAt(view.a + (x1 + pixel / 4) / scale), m1, device.events + 1);
    } else {
      x1 = Math.min(width, Math.max(x + pixel, Math.round(x1 / pixel) * pixel));
    }
    pushRun(device, runs, { x0: x, x1, m0, m1 });
    x = x1;
  }
  return runs;
}

function pushRun(device, runs, run) {
  const before = runs[runs.length - 1];
  const rows = device.windowOver(run.m0, run.m1);
  if (rows) {
    const [high, low] = run.m1 - run.m0 === 1 ? [run.m0, run.m0] : rows.highLow(run.m0, run.m1);
    Object.assign(run, { rows, moment: high, low: rows.allocated[low - rows.from],
      allocated: rows.allocated[high - rows.from], active: rows.active[high - rows.from] });
    if (before?.rows === rows && before.m0 === run.m0 && before.m1 === run.m1) { before.x1 = run.x1; return; }
  } else {
    const cell = device.levels.highestCell(run.m0, run.m1);
    const { highest, highestAt, active } = device.levels;
    if (before && !before.rows && before.cell === cell) {
      before.x1 = run.x1;
      before.m1 = run.m1;
      return;
    }
    Object.assign(run, { rows: null, cell, moment: highestAt[cell], allocated: highest[cell],
      active: Math.max(active[cell], highest[cell]), low: device.levels.lowestIn(run.m0, run.m1) });
  }
  run.reserved = device.reservedIn(run.m0, run.m1);
  runs.push(run);
}

// Tops of the bands of every run, one after the other: `tops[run * (bands + 1) + band + 1]`, from 0 up.
function bandTops(grouping, runs) {
  const count = grouping.bands.length;
  const tops = new Float64Array(runs.length * (count + 1));
  const levels = grouping.device.levels;
  const cells = levels ? levels.bands(grouping.name).atHighest : null;
  runs.forEach((run, i) => {
    const sums = run.rows ? grouping.table(run.rows).seek(run.moment) : null;
    const base = i * (count + 1);
    for (let band = 0; band < count; band++) {
      tops[base + band + 1] = tops[base + band] + (sums ? sums[band] : cells[band][run.cell]);
    }
  });
  return tops;
}

// Every band's own maximum in a view: exact where rows cover it, else from whole cells (`cells` is their width).
function maximaOf(grouping, m0, m1) {
  const { device } = grouping;
  const rows = device.windowOver(m0, m1);
  if (rows) return { cells: 0, most: grouping.table(rows).maxima(m0, m1) };
  const { width } = device.levels;
  const most = device.levels.maxima(grouping.name, m0, m1)
    .map(({ bytes, cell }) => ({ bytes, moment: cell * width, last: Math.min(device.events, (cell + 1) * width - 1) }));
  return { cells: width, most };
}

// The allocations of one moment in the order of the picture: band by band, each by birth, then pending ones.
// Calls `visit(row, band, low, high, pending)` with bytes from the bottom; stops when it returns true.
function eachStacked(grouping, rows, moment, visit) {
  const groups = grouping.groups(rows);
  const live = grouping.bands.map(() => []);
  const pending = [];
  rows.eachActive(moment, (row, late) => (late ? pending : live[groups[row]]).push(row));
  let low = 0;
  for (let band = 0; band <= live.length; band++) {
    for (const row of live[band] ?? pending) {
      const high = low + rows.bytes[row];
      if (visit(row, band, low, high, band === live.length)) return;
      low = high;
    }
  }
}

// The allocation at a height of the picture; null above the stack.
function allocationAt(grouping, rows, moment, bytes) {
  let found = null;
  eachStacked(grouping, rows, moment, (row, band, low, high, pending) => {
    if (bytes >= high) return false;
    found = { rows, row, band, pending, low, high };
    return true;
  });
  return found;
}
