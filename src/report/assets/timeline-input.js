// How a timeline is moved: wheel and pinch zoom at the pointer, drag, range with shift, click, double click, keys,
// and the overview's brush. Owns gestures; what they do to the view is timeline.js's.

const CLICK_SLOP = 4;

class TimelineInput {
  constructor(timeline) {
    this.timeline = timeline;
    this.pointers = new Map();
    this.scrolledAt = -Infinity;
    const { plot, overview } = timeline;
    plot.addEventListener('wheel', event => this.wheel(event), { passive: false });
    window.addEventListener('wheel', event => { if (!plot.contains(event.target)) this.scrolledAt = event.timeStamp; },
      { passive: true });
    plot.addEventListener('pointerdown', event => this.down(event));
    plot.addEventListener('pointermove', event => this.move(event));
    plot.addEventListener('pointerup', event => this.up(event));
    plot.addEventListener('pointercancel', event => this.cancel(event));
    plot.addEventListener('pointerleave', () => this.leave());
    plot.addEventListener('dblclick', () => timeline.reset());
    plot.addEventListener('keydown', event => this.key(event));
    this.brush(overview);
  }

  place(event) {
    const box = this.timeline.plot.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  unitAt(x) {
    const { plot } = this.timeline.frame;
    const { a, b } = this.timeline.view;
    return a + (x - plot.x) / plot.w * (b - a);
  }

  get unitsPerPixel() {
    const { view, frame } = this.timeline;
    return (view.b - view.a) / frame.plot.w;
  }

  // A wheel that can do nothing more here scrolls the page, and so does one that was scrolling it already when the
  // plot came under the pointer.
  wheel(event) {
    if (event.timeStamp - this.scrolledAt < 250) { this.scrolledAt = event.timeStamp; return; }
    const { timeline } = this;
    const { view, axis } = timeline;
    const pixels = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      timeline.pan((event.deltaX || event.deltaY) * pixels * this.unitsPerPixel);
      return;
    }
    const whole = view.b - view.a >= axis.end - 1e-9;
    if (whole && event.deltaY > 0 && !event.ctrlKey) return;
    event.preventDefault();
    const strength = event.ctrlKey ? 0.01 : 0.002;
    timeline.zoom(Math.exp(clamp(event.deltaY * pixels, -300, 300) * strength), this.unitAt(this.place(event)[0]));
  }

  down(event) {
    if (event.button !== 0) return;
    const [x, y] = this.place(event);
    this.timeline.plot.focus({ preventScroll: true });
    this.timeline.plot.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x, y });
    if (this.pointers.size === 2) { this.startPinch(); return; }
    this.drag = { x, y, a: this.timeline.view.a, b: this.timeline.view.b, moved: false, range: event.shiftKey };
  }

  startPinch() {
    const [one, two] = [...this.pointers.values()];
    this.drag = null;
    this.pinch = { distance: Math.max(20, Math.abs(one.x - two.x)), unit: this.unitAt((one.x + two.x) / 2),
      width: this.timeline.view.b - this.timeline.view.a };
  }

  move(event) {
    const [x, y] = this.place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, { x, y });
    if (this.pinch && this.pointers.size === 2) this.pinchTo();
    else if (this.drag) this.dragTo(x, y);
    else if (event.pointerType !== 'touch') this.hover(x, y);
  }

  pinchTo() {
    const { timeline, pinch } = this;
    const [one, two] = [...this.pointers.values()];
    const width = pinch.width * pinch.distance / Math.max(20, Math.abs(one.x - two.x));
    const part = ((one.x + two.x) / 2 - timeline.frame.plot.x) / timeline.frame.plot.w;
    timeline.setUnits(pinch.unit - width * part, pinch.unit + width * (1 - part));
  }

  dragTo(x, y) {
    const { drag, timeline } = this;
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK_SLOP) return;
    drag.moved = true;
    this.leave();
    if (drag.range) {
      const { plot } = timeline.frame;
      timeline.range = [drag.x, x].map(at => clamp(at, plot.x, plot.x + plot.w));
      timeline.drawOver();
    } else {
      const units = (drag.x - x) * (drag.b - drag.a) / timeline.frame.plot.w;
      timeline.setUnits(drag.a + units, drag.b + units);
    }
  }

  up(event) {
    const { drag, timeline } = this;
    this.cancel(event);
    if (!drag) return;
    if (!drag.moved) { this.click(drag.x, drag.y); return; }
    if (timeline.range) {
      const [from, to] = timeline.range.map(at => this.unitAt(at)).sort((a, b) => a - b);
      timeline.range = null;
      timeline.setUnits(from, to);
    }
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.pinch = null;
    this.drag = null;
  }

  click(x, y) {
    const { timeline } = this;
    const hit = timeline.hit(x, y);
    if (!hit) return;
    timeline.focus.setMoment(hit.moment);
    if (hit.found) timeline.focus.choose(hit.found, hit.moment);
  }

  hover(x, y) {
    const { timeline } = this;
    const hit = timeline.hit(x, y);
    timeline.hovered = hit?.found ? { ...hit.found, at: hit.moment } : null;
    timeline.drawOver();
    showTip(timeline, hit, x, y);
  }

  leave() {
    const { timeline } = this;
    timeline.tip.hidden = true;
    if (timeline.hovered) { timeline.hovered = null; timeline.drawOver(); }
  }

  key(event) {
    const { timeline } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = Math.max(10, Math.round(10 * timeline.view.moments / timeline.frame.plot.w));
    const by = event.shiftKey ? far : 1;
    const actions = {
      ArrowLeft: () => timeline.goTo(timeline.focus.moment - by), ArrowRight: () => timeline.goTo(timeline.focus.moment + by),
      '+': () => timeline.zoom(0.5), '=': () => timeline.zoom(0.5), '-': () => timeline.zoom(2), '0': () => timeline.reset(),
      Home: () => timeline.goTo(0), End: () => timeline.goTo(timeline.device.events),
      p: () => timeline.goToPeak(), P: () => timeline.goToPeak(), o: () => timeline.goToOom(), O: () => timeline.goToOom(),
      Enter: () => this.chooseChange(), Escape: () => timeline.focus.choose(null),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // Enter chooses what the event at the cursor touched, so a stack can be read without a pointer.
  chooseChange() {
    const change = this.timeline.device.changes(this.timeline.focus.moment)[0];
    if (change) this.timeline.focus.choose(change);
  }

  brush(overview) {
    const { timeline } = this;
    const unitAt = event => {
      const box = overview.getBoundingClientRect();
      return (event.clientX - box.left - PLOT_LEFT) / Math.max(20, box.width - PLOT_LEFT - PLOT_RIGHT) * timeline.axis.end;
    };
    let grip = null;
    overview.addEventListener('pointerdown', event => {
      const { a, b } = timeline.view;
      const at = unitAt(event);
      overview.setPointerCapture(event.pointerId);
      grip = at >= a && at <= b ? at - a : (b - a) / 2;
      timeline.setUnits(at - grip, at - grip + (b - a));
    });
    overview.addEventListener('pointermove', event => {
      if (grip === null) return;
      const from = unitAt(event) - grip;
      timeline.setUnits(from, from + timeline.view.b - timeline.view.a);
    });
    const end = () => { grip = null; };
    overview.addEventListener('pointerup', end);
    overview.addEventListener('pointercancel', end);
  }
}

// The tip at the pointer: the band, and the allocation with its size, line and life.
function showTip(timeline, hit, x, y) {
  const { tip, device, frame } = timeline;
  if (!hit) { tip.hidden = true; return; }
  tip.replaceChildren(...tipLines(timeline, hit).map(([text, kind]) => build('div', { class: kind, text })));
  tip.hidden = false;
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 14 + w > frame.width ? Math.max(0, x - 14 - w) : x + 14;
  const top = y + 14 + h > frame.height ? Math.max(0, y - h - 10) : y + 14;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

function tipLines(timeline, { run, moment, bytes, found }) {
  const { device, grouping } = timeline;
  const lines = [];
  if (found) {
    const it = device.allocation(found.rows, found.row);
    const end = it.freed === null ? 'to the end' : `to event ${counted(it.freed - 1)}`;
    const name = found.pending ? 'pending' : grouping.bands[found.band].label;
    lines.push([name, 'tip-name'], [iecExact(it.bytes), 'tip-size'],
      [it.born === 0 ? `from before the recording ${end}` : `event ${counted(it.born - 1)} ${end}`, '']);
    if (grouping.name !== 'line') lines.push([it.lineText, '']);
    const frames = device.framesOf(it.stack).slice(0, 4).map(frame => device.frameText(frame));
    for (const { called, at } of frames) lines.push([shortened(`${called}  ${at}`, 70), 'tip-frame']);
  } else if (run.rows && bytes >= 0) {
    lines.push([bytes < run.reserved ? 'free in segments' : 'not reserved', 'tip-name']);
  } else if (!run.rows) {
    const { width } = device.levels;
    lines.push([bandName(timeline, run, bytes), 'tip-name'],
      [`single events are left out of this file here: highest total of a cell of ${counted(width)} events`, '']);
  }
  const known = run.m1 - run.m0 > 1 && run.rows ? `highest of ${counted(run.m1 - run.m0)} events: ` : '';
  lines.push([`${known}event ${counted(Math.max(0, moment - 1))}, allocated ${iec(run.allocated)}, reserved ${iec(run.reserved)}`, 'tip-moment']);
  return lines;
}

// The band at a height where only cells are known.
function bandName(timeline, run, bytes) {
  const { runs, tops, bands } = timeline.frame;
  const base = runs.indexOf(run) * (bands + 1);
  for (let band = 0; band < bands; band++) if (bytes >= 0 && bytes < tops[base + band + 1]) return timeline.grouping.bands[band].label;
  return bytes < run.reserved ? 'free or pending' : 'not reserved';
}
