// A timeline's deep zoom: single allocations as boxes inside their bands, and single events in the strip below.

// Single allocations as boxes: a box reaches as far as its allocation keeps its place in the stack.
function drawBoxes(context, state, frame, colours) {
  const { plot, runs } = frame;
  const rows = runs.length && runs.every(run => run.rows === runs[0].rows) ? runs[0].rows : null;
  if (!rows) return;
  const boxes = boxesOf(state, frame, rows);
  context.strokeStyle = colours.panel;
  context.lineWidth = 1;
  context.globalAlpha = 0.7;
  context.beginPath();
  for (const { x0, x1, y0, y1 } of boxes) {
    if (x1 - x0 > 1) context.rect(plot.x + x0 + 0.5, y0 + 0.5, x1 - x0 - 1, y1 - y0 - 0.5);
  }
  context.stroke();
  context.globalAlpha = 1;
  for (const box of boxes) if (box.x1 - box.x0 > 70 && box.y1 - box.y0 >= 13) nameBox(context, state, frame, rows, box, colours);
}

// {row, band, x0, x1, y0, y1} of every allocation that is tall enough to see.
function boxesOf(state, { runs, y, plot }, rows) {
  const closed = [];
  const open = new Map();
  // Where columns are narrow only tall boxes can be told apart, and there are very many low ones.
  const least = clamp(30 / (plot.w / state.view.moments), 2.5, 8);
  const close = (row, x1) => {
    closed.push({ ...open.get(row), row, x1 });
    open.delete(row);
  };
  for (const run of runs) {
    const seen = new Set();
    eachStacked(state.grouping, rows, run.moment, (row, band, low, high, pending) => {
      const [y0, y1] = [y(high), y(low)];
      if (y1 - y0 < least) return false;
      seen.add(row);
      const box = open.get(row);
      if (box && (box.y0 !== y0 || box.y1 !== y1)) close(row, run.x0);
      if (!open.has(row)) open.set(row, { x0: run.x0, y0, y1, band: pending ? null : band });
      return false;
    });
    for (const row of [...open.keys()]) if (!seen.has(row)) close(row, run.x0);
  }
  for (const row of [...open.keys()]) close(row, plot.w);
  return closed;
}

// The size and the line of a box, as far as it has room.
function nameBox(context, state, { plot }, rows, { row, band, x0, x1, y0, y1 }, colours) {
  const colour = band === null ? colours.free : bandColour(colours, state.grouping.bands[band]);
  context.save();
  context.beginPath();
  context.rect(plot.x + x0, y0, x1 - x0 - 4, y1 - y0);
  context.clip();
  context.font = '11px system-ui, sans-serif';
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillStyle = isDark(colour) ? '#ffffff' : '#000000';
  context.fillText(`${iec(rows.bytes[row])}  ${rowLine(state.device, rows, row)}`, plot.x + x0 + 5, (y0 + y1) / 2 + 0.5);
  context.restore();
}

function rowLine(device, rows, row) {
  const line = device.kinds.line[rows.kind[row]] - 1;
  return line < 0 ? 'no line known' : device.lineText(line);
}

// Stripes for bytes that are given back but not yet free.
function stripes(context, colours) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const paint = tile.getContext('2d');
  paint.fillStyle = colours.free;
  paint.fillRect(0, 0, 6, 6);
  paint.strokeStyle = colours.pending;
  paint.lineWidth = 2;
  paint.beginPath();
  for (const x of [-3, 3, 9]) { paint.moveTo(x - 3, 7.5); paint.lineTo(x + 5, -0.5); }
  paint.stroke();
  return context.createPattern(tile, 'repeat');
}

// The strip under the plot: every single event at a deep zoom, else where the file has no single events.
function drawStrip(context, state, frame, colours) {
  const { plot, runs } = frame;
  const top = plot.y + plot.h + 2;
  const height = PLOT_STRIP - 4;
  context.fillStyle = colours.unknown;
  for (const run of runs) if (!run.rows) context.fillRect(plot.x + run.x0, top + height - 3, run.x1 - run.x0, 3);
  if (state.view.moments > DEEP_MOMENTS) return;
  const { bands } = state.grouping;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  for (let moment = state.view.m0; moment < state.view.m1; moment++) {
    const rows = state.device.windowOver(moment);
    const change = rows?.changesAt(moment)[0];
    if (!change) continue;
    const [row, what] = change;
    const x = frame.x(moment);
    const room = frame.x(moment + 1) - x;
    if (x < plot.x - 0.5 || x > plot.x + plot.w) continue;
    context.fillStyle = bandColour(colours, bands[state.grouping.groups(rows)[row]]);
    triangle(context, x + Math.min(4, room / 2), top + height / 2, Math.min(4, room / 2), what === OP_BEGIN);
    if (room < 44) continue;
    const size = `${what === OP_BEGIN ? '+' : what === OP_FREED ? '−' : 'done '}${iec(rows.bytes[row])}`;
    const whole = `${size}  ${rowLine(state.device, rows, row)}`;
    const text = [whole, size].find(it => room > context.measureText(it).width + 16);
    if (text) {
      context.fillStyle = colours.ink;
      context.fillText(text, x + 11, top + height / 2 + 1);
    }
  }
}

function triangle(context, x, y, size, up) {
  const tip = up ? -size : size;
  context.beginPath();
  context.moveTo(x - size, y - tip);
  context.lineTo(x + size, y - tip);
  context.lineTo(x, y + tip);
  context.fill();
}
