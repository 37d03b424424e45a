// The timeline of a device: its parts on the page and its state (view, bands, axis, hover), and when what is
// drawn. Painting is timeline-draw.js's and timeline-overlay.js's, input timeline-input.js's.

class Timeline {
  constructor(section, device, focus) {
    Object.assign(this, { section, device, focus, fit: false, hovered: null, pointedOut: null, range: null, marks: marksOf(device) });
    this.colours = themeColours();
    this.axis = new TimelineAxis(device, 'event');
    this.grouping = Grouping.of(device, 'line');
    this.legend = new Legend(moment => this.goTo(moment), slot => { this.pointedOut = slot; this.draw(); });
    this.panel = new SelectionPanel(focus);
    this.view = null;
    this.build();
    this.reset();
    this.draw = oncePerFrame(() => this.paint());
    this.drawOver = oncePerFrame(() => this.paintOverlay());
    this.legend.setBands(this.grouping, this.colours);
    focus.onChange(() => { this.follow(); this.panel.update(); this.legendLater(); this.drawOver(); this.publish(); });
    onThemeChange(() => this.retheme());
    new ResizeObserver(() => this.paint()).observe(this.plot);
    new TimelineInput(this);
    this.panel.update();
    this.legendLater = oncePerFrame(() => this.updateTexts());
    this.paint();
    this.publish();
  }

  build() {
    const labelled = { role: 'img', 'aria-label': '' };
    this.canvas = build('canvas', { ...labelled, 'aria-hidden': 'true' });
    this.overlay = build('canvas', { 'aria-hidden': 'true' });
    this.tip = build('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
    this.keys = build('p', { class: 'sr-only', id: `keys-${this.section.id}`, text:
      'Left and right move the moment by one event, with shift by ten columns. Plus and minus zoom, home and end go to the ends, P to the peak, O to the next out-of-memory error, 0 shows everything.' });
    this.plot = build('div', { class: 'plot', tabindex: '0', role: 'application',
      'aria-label': 'Timeline of allocated bytes; the table below has its figures',
      'aria-describedby': this.keys.id }, this.canvas, this.overlay, this.tip);
    this.overview = build('div', { class: 'overview', title: 'The whole recording; drag to move the view' },
      build('canvas', { 'aria-hidden': 'true' }), build('canvas', { 'aria-hidden': 'true' }));
    this.status = build('p', { class: 'view-status', 'aria-live': 'polite' });
    const mount = this.section.querySelector('.mount') ?? this.section;
    mount.replaceChildren(this.tools(), this.keys, this.plot, this.overview, this.status,
      build('div', { class: 'view-below' }, this.legend.element, this.panel.element));
    mount.classList.add('memlab-view');
  }

  tools() {
    const { device } = this;
    const bands = groupingsOf(device).map(name => [name, GROUPINGS[name].title]);
    this.eventInput = build('input', { type: 'number', min: '0', max: String(device.events - 1), class: 'event',
      'aria-label': 'Event number', placeholder: 'number' });
    this.choices = {
      bands: choice('bands', bands, 'line', name => this.setGrouping(name)),
      axis: device.clock ? choice('axis', [['event', 'events'], ['time', 'time']], 'event', mode => this.setAxis(mode)) : null,
    };
    const go = event => { event.preventDefault(); if (this.eventInput.value !== '') this.goToEvent(Number(this.eventInput.value)); };
    return build('div', { class: 'view-tools', role: 'group', 'aria-label': 'Timeline' },
      this.choices.bands,
      this.choices.axis,
      choice('height', [['zero', 'from zero'], ['fit', 'fit']], 'zero', value => { this.fit = value === 'fit'; this.draw(); }),
      build('span', { class: 'group' }, button('−', 'Zoom out', () => this.zoom(2)), button('+', 'Zoom in', () => this.zoom(0.5)),
        button('Reset', 'Show the whole recording', () => this.reset())),
      build('span', { class: 'group' }, button('Peak', 'Go to the peak of allocated bytes', () => this.goToPeak()),
        device.ooms.length ? button('OOM', 'Go to the next out-of-memory error', () => this.goToOom()) : null),
      build('form', { class: 'group', onsubmit: go }, build('label', { class: 'choice' }, build('span', { text: 'event' }), this.eventInput),
        build('button', { type: 'submit', class: 'tool', text: 'Go', title: 'Go to this event' })));
  }

  // Shows [a, b) of the axis's units, kept within the recording and not narrower than it can show.
  setUnits(a, b) {
    const width = clamp(b - a, this.axis.least, this.axis.end);
    const from = clamp(a, 0, this.axis.end - width);
    this.view = { a: from, b: from + width };
    this.view.m0 = from === 0 ? 0 : this.axis.momentAt(from);
    // The right edge belongs to the next moment; the last moment that is shown begins before it.
    this.view.m1 = Math.max(this.view.m0, this.axis.momentAt(this.view.b - Math.min(1e-6, width / 1e6))) + 1;
    this.view.moments = this.view.m1 - this.view.m0;
    this.hovered = null;
    this.tip.hidden = true;
    this.draw?.();
    this.legendLater?.();
    this.publish();
  }

  // Shows the moments [from, to).
  setView(from, to) {
    this.setUnits(this.axis.unit(from), this.axis.unit(to));
  }

  reset() {
    this.setUnits(0, this.axis.end);
  }

  zoom(factor, unit = this.middle()) {
    const { a, b } = this.view;
    this.setUnits(unit - (unit - a) * factor, unit + (b - unit) * factor);
  }

  pan(units) {
    this.setUnits(this.view.a + units, this.view.b + units);
  }

  // Zooms without a pointer keep the cursor in place when it is in view.
  middle() {
    const at = this.axis.unit(this.focus.moment);
    const { a, b } = this.view;
    return at >= a && at <= b ? (at + Math.min(b, this.axis.unit(this.focus.moment + 1))) / 2 : (a + b) / 2;
  }

  // Moves the view along when the cursor left it.
  follow() {
    const { a, b } = this.view;
    const at = this.axis.unit(this.focus.moment);
    if (at < a || at >= b) this.setUnits(at - (b - a) / 2, at + (b - a) / 2);
  }

  goTo(moment) {
    this.focus.setMoment(moment);
    this.follow();
  }

  goToPeak() { this.goTo(this.device.peaks.allocated.moment); }

  // The next failure after the cursor, and from the last one on to the first.
  goToOom() {
    const { ooms } = this.device;
    if (ooms.length) this.goTo((ooms.find(oom => oom.moment > this.focus.moment) ?? ooms[0]).moment);
  }

  // Zooms to an event: its effect stands in the middle and what it touched is chosen.
  goToEvent(event) {
    const moment = clamp(Math.round(event) + 1, 1, this.device.events);
    this.setView(Math.max(0, moment - 20), Math.min(this.device.events + 1, moment + 21));
    this.focus.setMoment(moment);
    const change = this.device.changes(moment)[0];
    this.focus.choose(change ?? null, change?.what === 'allocated' ? moment : moment - 1);
  }

  setGrouping(name) {
    this.grouping = Grouping.of(this.device, name);
    this.choices.bands.lastChild.value = name;
    this.overviewKey = null;
    this.hovered = null;
    this.pointedOut = null;
    this.legend.setBands(this.grouping, this.colours);
    this.legendLater();
    this.draw();
  }

  setAxis(mode) {
    const { m0, m1 } = this.view;
    this.axis = new TimelineAxis(this.device, mode);
    if (this.choices.axis) this.choices.axis.lastChild.value = mode;
    this.overviewKey = null;
    this.setView(m0, m1);
  }

  retheme() {
    this.colours = themeColours();
    this.overviewKey = null;
    this.legend.recolour(this.colours);
    this.draw();
  }

  paint() {
    const started = performance.now();
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight];
    if (width === 0) return;
    this.frame = timelineFrame(this, width, height);
    drawTimeline(sizedContext(this.canvas, width, height), this, this.frame, this.colours);
    this.paintOverview(width);
    this.paintOverlay();
    this.updateTexts();
    this.frameMs = performance.now() - started;
  }

  paintOverlay() {
    if (!this.frame) return;
    const { width, height } = this.frame;
    drawOverlay(sizedContext(this.overlay, width, height), this, this.frame, this.colours);
    const brush = this.overview.lastChild;
    drawBrush(sizedContext(brush, width, this.overview.clientHeight), this, width, this.overview.clientHeight, this.colours);
  }

  paintOverview(width) {
    const key = `${width}x${window.devicePixelRatio}`;
    if (this.overviewKey === key) return;
    this.overviewKey = key;
    const height = this.overview.clientHeight;
    drawOverview(sizedContext(this.overview.firstChild, width, height), this, width, height, this.colours);
  }

  updateTexts() {
    this.legend.update(this);
    const text = [this.focus.momentText(), ...this.focus.changeTexts()].join(' — ');
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  // State for tests and scripts, on the section.
  publish() {
    const { dataset } = this.section;
    Object.assign(dataset, { viewFrom: this.view.m0, viewTo: this.view.m1, moment: this.focus.moment,
      selected: this.focus.chosenText });
  }

  // What lies at a place of the plot: the moment of the picture there, and the allocation, if any.
  hit(x, y) {
    const { plot, runs, bytesAt } = this.frame;
    const at = clamp(x - plot.x, 0, plot.w - 0.01);
    let [low, high] = [0, runs.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (runs[middle].x1 <= at) low = middle + 1; else high = middle;
    }
    const run = runs[low];
    if (!run) return null;
    const bytes = y > plot.y + plot.h ? -1 : bytesAt(y);
    const found = run.rows && bytes >= 0 ? allocationAt(this.grouping, run.rows, run.moment, bytes) : null;
    return { run, moment: run.moment, bytes, found };
  }
}
