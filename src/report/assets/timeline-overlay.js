// What lies above a timeline's picture: the cursor's moment, the hovered and the chosen allocation, a range being
// chosen; and the overview, which shows the whole recording with the part in view.

function drawOverlay(context, state, frame, colours) {
  const { plot } = frame;
  const x0 = frame.x(state.focus.moment);
  const x1 = frame.x(state.focus.moment + 1);
  if (x1 >= plot.x && x0 <= plot.x + plot.w) drawCursor(context, frame, x0, x1, colours);
  if (state.focus.chosen) outlineAllocation(context, state, frame, state.focus.chosen, colours.ink, 2);
  if (state.hovered) outlineAllocation(context, state, frame, state.hovered, colours.ink, 1);
  if (state.range) {
    const [from, to] = [Math.min(...state.range), Math.max(...state.range)];
    context.fillStyle = colours.focus;
    context.globalAlpha = 0.18;
    context.fillRect(from, plot.y, to - from, plot.h);
    context.globalAlpha = 1;
    context.strokeStyle = colours.focus;
    line(context, from, plot.y, from, plot.y + plot.h);
    line(context, to, plot.y, to, plot.y + plot.h);
  }
}

// The cursor: a line where the moment begins, a veil over its length when that is wide enough to see.
function drawCursor(context, frame, x0, x1, colours) {
  const { plot } = frame;
  const left = Math.max(plot.x, x0);
  const right = Math.min(plot.x + plot.w, x1);
  context.fillStyle = context.strokeStyle = colours.focus;
  if (right - left > 3) {
    context.globalAlpha = 0.12;
    context.fillRect(left, plot.y, right - left, plot.h + PLOT_STRIP);
    context.globalAlpha = 1;
  }
  context.lineWidth = 1.5;
  line(context, left, plot.y - 4, left, plot.y + plot.h + PLOT_STRIP);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left - 5, plot.y - 10);
  context.lineTo(left + 5, plot.y - 10);
  context.lineTo(left, plot.y - 3);
  context.fill();
}

// An allocation's life as a bar in the strip, and its place in the stack: all along at a deep zoom, else in the
// run under the pointer or the cursor.
function outlineAllocation(context, state, frame, { rows, row, at }, colour, width) {
  const { plot, runs, y } = frame;
  const begin = clamp(frame.x(rows.begin[row]), plot.x, plot.x + plot.w);
  const last = Math.min(rows.freed[row], state.device.events + 1);
  const end = clamp(frame.x(last), plot.x, plot.x + plot.w);
  context.strokeStyle = context.fillStyle = colour;
  if (end > begin) context.fillRect(begin, plot.y + plot.h + PLOT_STRIP - 3, Math.max(1, end - begin), 3);
  const deep = state.view.moments <= DEEP_MOMENTS;
  context.lineWidth = width;
  context.beginPath();
  for (const run of runs) {
    if (run.rows !== rows || !(deep || (run.m0 <= at && at < run.m1))) continue;
    if (rows.begin[row] > run.moment || rows.done[row] <= run.moment) continue;
    const box = placeInStack(state.grouping, rows, run.moment, row);
    if (!box) continue;
    const [top, bottom] = [y(box.high), y(box.low)];
    context.rect(plot.x + run.x0, top, Math.max(1, run.x1 - run.x0), Math.max(1, bottom - top));
    // In a thin column the box would hardly be seen: rules across the plot point at it.
    if (!deep && run.x1 - run.x0 < 6) {
      context.moveTo(plot.x + run.x0 - 8, (top + bottom) / 2);
      context.lineTo(plot.x + run.x0, (top + bottom) / 2);
      context.moveTo(plot.x + run.x1, (top + bottom) / 2);
      context.lineTo(plot.x + run.x1 + 8, (top + bottom) / 2);
    }
  }
  context.stroke();
  context.lineWidth = 1;
}

function placeInStack(grouping, rows, moment, wanted) {
  let found = null;
  eachStacked(grouping, rows, moment, (row, band, low, high) => {
    if (row !== wanted) return false;
    found = { low, high };
    return true;
  });
  return found;
}

// The overview under the plot: the whole recording, small; drawn anew only when bands, width or colours change.
function drawOverview(context, state, width, height, colours) {
  const plot = { x: PLOT_LEFT, y: 0, w: Math.max(20, width - PLOT_LEFT - PLOT_RIGHT), h: height };
  const whole = { a: 0, b: state.axis.end };
  const runs = runsOf(state.device, state.axis, whole, plot.w, 1);
  const tops = bandTops(state.grouping, runs);
  const count = state.grouping.bands.length;
  const y = bytes => height - bytes / (state.device.highestTotal * 1.04) * height;
  const fill = (colour, from, to) => {
    context.fillStyle = colour;
    runs.forEach((run, i) => context.fillRect(plot.x + run.x0, y(to(run, i)), run.x1 - run.x0, y(from(run, i)) - y(to(run, i))));
  };
  fill(colours.free, () => 0, run => run.reserved);
  state.grouping.bands.forEach((band, slot) => fill(bandColour(colours, band),
    (_, i) => tops[i * (count + 1) + slot], (_, i) => tops[i * (count + 1) + slot + 1]));
}

// The part in view, as a frame over the overview; what lies outside is veiled.
function drawBrush(context, state, width, height, colours) {
  const w = Math.max(20, width - PLOT_LEFT - PLOT_RIGHT);
  const at = unit => PLOT_LEFT + unit / state.axis.end * w;
  const [left, right] = [at(state.view.a), at(state.view.b)];
  context.fillStyle = colours.panel;
  context.globalAlpha = 0.6;
  context.fillRect(PLOT_LEFT, 0, left - PLOT_LEFT, height);
  context.fillRect(right, 0, PLOT_LEFT + w - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.focus;
  context.lineWidth = 1.5;
  context.strokeRect(left, 0.75, Math.max(2, right - left), height - 1.5);
  const cursor = at(state.axis.unit(state.focus.moment));
  context.fillStyle = colours.focus;
  context.fillRect(cursor - 0.5, 0, 1, height);
}
