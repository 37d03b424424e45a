// Paints a timeline: bands, pending, free and reserved, axes and marks into one canvas; cursor, hover and selection
// into a second one above it, so that moving the pointer repaints little.

const PLOT_LEFT = 78;
const PLOT_RIGHT = 12;
const PLOT_TOP = 36;
const PLOT_STRIP = 16;
const PLOT_BOTTOM = 24;
const DEEP_MOMENTS = 300;

function bandColour(colours, band) {
  return typeof band.colour === 'number' ? colours.bands[band.colour] : colours[band.colour];
}

// Everything a frame needs: runs, tops, scales. `height` is the canvas's.
function timelineFrame(state, width, height) {
  const { device, axis, view, grouping } = state;
  const plot = { x: PLOT_LEFT, y: PLOT_TOP, w: Math.max(20, width - PLOT_LEFT - PLOT_RIGHT),
    h: height - PLOT_TOP - PLOT_STRIP - PLOT_BOTTOM };
  const pixel = 1 / Math.min(3, window.devicePixelRatio || 1);
  const runs = runsOf(device, axis, view, plot.w, pixel);
  const tops = bandTops(grouping, runs);
  const [low, high] = state.fit ? fittedRange(runs, plot.h) : [0, device.highestTotal * 1.04];
  const y = bytes => plot.y + plot.h - (clamp(bytes, low, high) - low) / (high - low) * plot.h;
  const bytesAt = py => low + (plot.y + plot.h - py) / plot.h * (high - low);
  const scale = plot.w / (view.b - view.a);
  const x = moment => plot.x + (axis.unit(moment) - view.a) * scale;
  return { plot, runs, tops, low, high, y, bytesAt, x, width, height, bands: grouping.bands.length };
}

// The bytes between the lowest total and the highest active of what is shown, with some air.
function fittedRange(runs) {
  let [low, high] = [Infinity, 0];
  for (const run of runs) {
    low = Math.min(low, run.low);
    high = Math.max(high, run.active);
  }
  const air = Math.max((high - low) * 0.08, 1024);
  return [Math.max(0, low - air), high + air];
}

function drawTimeline(context, state, frame, colours) {
  const { plot } = frame;
  context.save();
  context.beginPath();
  context.rect(plot.x, plot.y, plot.w, plot.h);
  context.clip();
  fillBands(context, state, frame, colours);
  context.restore();
  drawBytesAxis(context, frame, colours);
  drawMomentAxis(context, state, frame, colours);
  drawMarks(context, state, frame, colours);
  drawStrip(context, state, frame, colours);
}

function fillBands(context, state, frame, colours) {
  const { plot, runs, tops, bands, y } = frame;
  // Neighbours of one height become one rectangle: most bands seldom change.
  const rects = (colour, bottom, top) => {
    context.fillStyle = colour;
    let [x0, x1, y0, y1] = [0, 0, 0, 0];
    const flush = () => { if (y1 > y0) context.fillRect(plot.x + x0, y0, x1 - x0, y1 - y0); };
    for (let i = 0; i < runs.length; i++) {
      const run = runs[i];
      const high = y(top(run, i));
      const low = y(bottom(run, i));
      if (high !== y0 || low !== y1) { flush(); x0 = run.x0; y0 = high; y1 = low; }
      x1 = run.x1;
    }
    flush();
  };
  rects(colours.free, run => run.active, run => run.reserved);
  rects(stripes(context, colours), run => run.allocated, run => run.active);
  const at = (band, i) => tops[i * (bands + 1) + band];
  state.grouping.bands.forEach((band, slot) => {
    // A band that the legend points out stands out against the others.
    context.globalAlpha = state.pointedOut === null || state.pointedOut === slot ? 1 : 0.25;
    rects(bandColour(colours, band), (_, i) => at(slot, i), (_, i) => at(slot + 1, i));
  });
  context.globalAlpha = 1;
  if (state.view.moments <= DEEP_MOMENTS) drawBoxes(context, state, frame, colours);
  drawEdges(context, frame, colours);
}

// The reserved line on top, and a light edge where a column's lowest total lies far below its highest.
function drawEdges(context, frame, colours) {
  const { plot, runs, y } = frame;
  context.strokeStyle = colours.panel;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  for (const run of runs) {
    if (run.m1 - run.m0 < 2 || y(run.low) - y(run.allocated) < 4) continue;
    context.moveTo(plot.x + run.x0, y(run.low));
    context.lineTo(plot.x + run.x1, y(run.low));
  }
  context.stroke();
  context.globalAlpha = 1;
  context.strokeStyle = colours.reserved;
  context.lineWidth = 1.5;
  context.beginPath();
  runs.forEach((run, i) => {
    const top = y(run.reserved);
    if (i === 0) context.moveTo(plot.x + run.x0, top); else context.lineTo(plot.x + run.x0, top);
    context.lineTo(plot.x + run.x1, top);
  });
  context.stroke();
}

function drawBytesAxis(context, frame, colours) {
  const { plot, low, high, y } = frame;
  context.font = '11px system-ui, sans-serif';
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const { value, text } of byteTicks(low, high, Math.max(2, plot.h / 44))) {
    const at = Math.round(y(value)) + 0.5;
    context.globalAlpha = 0.4;
    context.strokeStyle = colours.grid;
    line(context, plot.x, at, plot.x + plot.w, at);
    context.globalAlpha = 1;
    context.fillStyle = colours.muted;
    context.fillText(text, plot.x - 7, at);
  }
  context.strokeStyle = colours.axis;
  line(context, plot.x - 0.5, plot.y, plot.x - 0.5, plot.y + plot.h);
}

function drawMomentAxis(context, state, frame, colours) {
  const { plot } = frame;
  const { view, axis } = state;
  const base = plot.y + plot.h + PLOT_STRIP;
  const scale = plot.w / (view.b - view.a);
  context.textAlign = 'center';
  context.textBaseline = 'top';
  context.strokeStyle = colours.axis;
  line(context, plot.x, base + 0.5, plot.x + plot.w, base + 0.5);
  const taken = new Lane();
  context.fillStyle = colours.muted;
  for (const { unit, text } of axisTicks(axis, view, Math.max(1, plot.w / 90))) {
    const at = plot.x + (unit - view.a) * scale;
    line(context, at, base, at, base + 4);
    const half = context.measureText(text).width / 2;
    const middle = clamp(at, half + 2, frame.width - half - 2);
    if (taken.free(middle - half - 6, middle + half + 6)) context.fillText(text, middle, base + 7);
  }
  context.textAlign = 'right';
  context.fillText(axis.timed ? 'time' : 'event', plot.x - 28, base + 7);
}

function drawMarks(context, state, frame, colours) {
  const { plot } = frame;
  const right = plot.x + plot.w;
  context.textBaseline = 'alphabetic';
  context.textAlign = 'left';
  const upper = new Lane();
  for (const mark of state.marks) {
    const at = frame.x(mark.moment);
    if (at < plot.x - 1 || at > right + 1) continue;
    context.strokeStyle = context.fillStyle = colours[mark.kind];
    context.setLineDash(mark.kind === 'oom' ? [] : [3, 3]);
    context.lineWidth = mark.kind === 'oom' ? 2 : 1;
    line(context, at, PLOT_TOP - 20, at, plot.y + plot.h);
    context.setLineDash([]);
    const width = context.measureText(mark.text).width;
    // Right of its line, or else left of it, as near as others leave room.
    const sides = at + 5 + width < right ? [at + 4] : [];
    for (let x = at - 4 - width; x > Math.max(0, at - 240 - width); x -= 8) sides.push(x);
    const start = sides.find(x => upper.free(x - 3, x + width + 3));
    if (start !== undefined) context.fillText(mark.text, start, PLOT_TOP - 22);
  }
  context.lineWidth = 1;
  const lower = new Lane();
  for (const { step, x } of stepsIn(state.device, state.axis, state.view, plot.w, 46)) {
    context.strokeStyle = colours.step;
    context.globalAlpha = 0.45;
    line(context, plot.x + x, PLOT_TOP - 6, plot.x + x, plot.y + plot.h);
    context.globalAlpha = 1;
    context.fillStyle = colours.step;
    const text = shortened(state.device.stepText(step), 18);
    const width = context.measureText(text).width;
    if (plot.x + x + width < right && lower.free(x - 2, x + width + 6)) context.fillText(text, plot.x + x + 3, PLOT_TOP - 6);
  }
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
