// The allocator's state at the chosen moment: the map of segments, its controls, the sums, and who pins the holes.
// Owns the section's parts and when they are drawn.

class StateView {
  constructor(section, device, focus) {
    Object.assign(this, { section, device, focus, order: 'size', perShelf: null });
    this.colours = themeColours();
    this.grouping = Grouping.of(device, 'line');
    this.build();
    this.refresh = oncePerFrame(() => this.compute());
    this.draw = oncePerFrame(() => this.paint());
    focus.onChange(() => (focus.moment === this.state?.moment ? this.draw() : this.refresh()));
    onThemeChange(() => { this.colours = themeColours(); this.showKey(); this.draw(); });
    new ResizeObserver(() => { this.lay(); this.paint(); }).observe(this.scroller);
    this.scroller.addEventListener('scroll', this.draw);
    new StateInput(this);
    this.showKey();
    this.compute();
  }

  build() {
    this.canvas = build('canvas', { 'aria-hidden': 'true' });
    this.spacer = build('div', { class: 'spacer' }, this.canvas);
    this.scroller = build('div', { class: 'map', tabindex: '0', role: 'application',
      'aria-label': 'Map of segments; left and right go from block to block, the tables below have its figures' }, this.spacer);
    this.tip = build('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
    this.pointed = build('p', { class: 'pointed', 'aria-live': 'polite' });
    this.said = build('p', { class: 'view-said' });
    this.bar = build('div', { class: 'sums-bar', 'aria-hidden': 'true' });
    this.key = build('p', { class: 'map-key' });
    this.sumsBody = build('tbody');
    this.pinsBody = build('tbody');
    const table = (title, columns, body) => build('table', {}, build('caption', { text: title }), build('thead', {}, build('tr', {},
      ...columns.map((text, i) => build('th', { scope: 'col', class: i ? 'number' : null, text })))), body);
    const mount = this.section.querySelector('.mount') ?? this.section;
    mount.classList.add('memlab-view');
    mount.replaceChildren(this.tools(), this.bar, build('div', { class: 'map-frame' }, this.scroller, this.tip), this.key, this.pointed, this.said,
      build('div', { class: 'view-below' },
        build('div', { class: 'scroll-x' }, table('Sums at this moment', ['part', 'bytes', 'share'], this.sumsBody)),
        build('div', { class: 'scroll-x' }, table('Who pins the holes', ['line', 'free pinned', 'by it alone', 'segments'], this.pinsBody))));
  }

  tools() {
    const { device, focus } = this;
    this.slider = build('input', { type: 'range', min: '0', max: String(device.events), step: '1', class: 'slider',
      'aria-label': 'Moment (number of events)', oninput: event => focus.setMoment(Number(event.target.value)) });
    this.momentText = build('p', { class: 'view-status' });
    const colours = groupingsOf(device).map(name => [name, GROUPINGS[name].title]);
    return build('div', {}, build('div', { class: 'view-tools', role: 'group', 'aria-label': 'Moment' },
      build('span', { class: 'group' }, button('◀', 'Previous event', () => focus.setMoment(focus.moment - 1)),
        button('▶', 'Next event', () => focus.setMoment(focus.moment + 1))),
      this.slider,
      build('span', { class: 'group' }, button('Peak', 'The peak of allocated bytes', () => focus.setMoment(device.peaks.allocated.moment)),
        button('Reserved peak', 'The peak of reserved bytes', () => focus.setMoment(device.peaks.reserved.moment)),
        device.ooms.length ? button('OOM', 'The next out-of-memory error', () => this.goToOom()) : null,
        button('End', 'The end of the recording', () => focus.setMoment(device.events))),
      choice('order', [['size', 'largest first'], ['address', 'by address']], 'size', value => { this.order = value; this.lay(); this.draw(); }),
      choice('colours', colours, 'line', name => { this.grouping = Grouping.of(device, name); this.showKey(); this.draw(); }),
      build('span', { class: 'group' }, button('−', 'Coarser scale', () => this.rescale(2)), button('+', 'Finer scale', () => this.rescale(0.5)),
        button('Fit', 'Show everything', () => { this.perShelf = null; this.lay(); this.draw(); }))), this.momentText);
  }

  goToOom() {
    const { ooms } = this.device;
    this.focus.setMoment((ooms.find(oom => oom.moment > this.focus.moment) ?? ooms[0]).moment);
  }

  rescale(factor) {
    this.perShelf = clamp((this.perShelf ?? this.layout.perShelf) * factor, 4096, 2 ** 52);
    this.lay();
    this.draw();
  }

  compute() {
    const started = performance.now();
    this.state = stateAt(this.device, this.focus.moment);
    this.lay();
    this.paint();
    this.showSums();
    this.showPins();
    this.slider.value = String(this.focus.moment);
    this.slider.setAttribute('aria-valuetext', this.focus.momentText());
    this.momentText.textContent = this.focus.momentText();
    this.publish();
    this.computeMs = performance.now() - started;
  }

  lay() {
    if (!this.state) return;
    const segments = this.order === 'size' ? [...this.state.segments].sort((a, b) => b.bytes - a.bytes) : this.state.segments;
    this.width = Math.max(40, this.scroller.clientWidth);
    this.layout = layShelves(segments, this.width, this.perShelf ?? scaleFor(segments, this.width));
    const height = Math.max(SHELF, this.layout.shelves * SHELF + 4);
    this.spacer.style.height = `${height}px`;
    this.scroller.style.height = `${Math.min(height + 2, WANTED_SHELVES * SHELF + 8)}px`;
  }

  paint() {
    if (!this.layout) return;
    const height = this.scroller.clientHeight;
    const context = sizedContext(this.canvas, this.width, height);
    const merged = drawShelves(context, this, this.colours, this.scroller.scrollTop, height);
    const scale = `One full row is ${iec(this.layout.perShelf)}; ${several(this.state.sums.segments, 'segment')}, ${several(this.state.sums.blocks, 'block')}.`;
    const small = merged ? ` ${several(merged, 'block')} narrower than a pixel here, sharing one with a neighbour.` : '';
    const wide = this.layout.widened ? ` ${several(this.layout.widened, 'segment')} drawn wider than to scale, to be seen.` : '';
    setText(this.said, scale + small + wide + this.unknownText());
  }

  unknownText() {
    const { exact, least, totals } = this.state;
    if (exact) return '';
    const shown = least === null ? 'No blocks are in this file at this moment'
      : `Only blocks of at least ${iec(least)} are in this file at this moment; smaller ones are left out`;
    const segments = this.device.knowsSegments ? '' : ` ${several(this.device.header.ranges_left_out, 'segment')} that came and went between the parts of the recording that are in this file are left out; reserved was at most ${iec(totals.reserved)}.`;
    return ` ${shown}, so what looks free may be in use.${segments} `
      + `Allocated in all was between ${iec(totals.lowest)} and ${iec(totals.highest)} in events ${counted(Math.max(0, totals.from - 1))} to ${counted(totals.to - 1)}.`;
  }

  // What the colours of the map mean.
  showKey() {
    const entry = (background, text, title) => {
      const swatch = build('span', { class: 'view-swatch', 'aria-hidden': 'true' });
      swatch.style.background = background;
      return build('span', { title }, swatch, build('span', { class: 'label-name', text }));
    };
    const { bands, panel, free } = this.colours;
    const hatched = `repeating-linear-gradient(135deg, ${bands[0]} 0 2px, ${panel} 2px 4px)`;
    this.key.replaceChildren(...this.grouping.bands.map(band => entry(bandColour(this.colours, band), band.label, band.full)),
      entry(hatched, 'pending'), entry(`linear-gradient(90deg, ${bands[0]} 60%, color-mix(in srgb, ${bands[0]} 45%, ${panel}) 60%)`, 'rounding at a block\'s end'),
      entry(free, 'free; dashed: a segment that is wholly free'));
  }

  // The colour of a block that is drawn outside the windows, where bands have no table of rows.
  largeColour(block) {
    const slot = this.grouping.slotOf(this.grouping.keysOf(this.state.rows)[block.row]);
    return bandColour(this.colours, this.grouping.bands[slot] ?? { colour: 'unknown' });
  }

  // The sums in bytes; what is not known outside the windows is null.
  sums() {
    const { sums, exact } = this.state;
    if (exact) return sums;
    const reserved = this.device.knowsSegments ? sums.reserved : null;
    return { ...sums, reserved, allocated: null, active: null, pending: null, stranded: null, releasable: null };
  }

  showSums() {
    const sums = this.sums();
    const parts = [['allocated', 'allocated'], ['pending', 'pending: given back, still in use by a stream'],
      ['stranded', 'stranded: free, in segments with a block in use'], ['releasable', 'releasable: segments that are wholly free']];
    const cells = (name, text) => build('tr', { class: name }, build('th', { scope: 'row', text }),
      build('td', { class: 'number', 'data-sum': name, 'data-exact': sums[name] === null ? '' : String(sums[name]),
        title: sums[name] === null ? 'not in this file' : `${counted(sums[name])} bytes`, text: sums[name] === null ? '–' : iec(sums[name]) }),
      build('td', { class: 'number', text: sums[name] === null ? '' : share(sums[name], sums.reserved) }));
    this.sumsBody.replaceChildren(...parts.map(([name, text]) => cells(name, text)), cells('reserved', 'reserved, the sum'));
    this.bar.replaceChildren(...parts.filter(([name]) => sums[name] > 0).map(([name]) => {
      const part = build('span', { class: name });
      part.style.width = `${sums[name] / sums.reserved * 100}%`;
      return part;
    }));
  }

  showPins() {
    const { pins, exact } = this.state;
    const rows = pins.slice(0, 12).map(pin => build('tr', {},
      build('th', { scope: 'row', title: pin.line < 0 ? '' : this.device.lineText(pin.line, true) },
        build('span', { class: 'label-name', text: pin.line < 0 ? 'no line known' : this.device.lineText(pin.line) })),
      ...[pin.bytes, pin.sole].map(bytes => build('td', { class: 'number', title: `${counted(bytes)} bytes`, text: iec(bytes) })),
      build('td', { class: 'number', text: counted(pin.segments) })));
    if (pins.length > 12) rows.push(noteRow(`and ${counted(pins.length - 12)} more lines`));
    if (rows.length === 0) rows.push(noteRow(exact ? 'There are no holes: every segment is full or wholly free.' : 'Not known here: smaller blocks are left out of this file.'));
    this.pinsBody.replaceChildren(...rows);
  }

  publish() {
    const { dataset } = this.section;
    const sums = this.sums();
    dataset.moment = this.focus.moment;
    for (const name of ['reserved', 'active', 'allocated', 'pending', 'stranded', 'releasable']) dataset[name] = sums[name] ?? '';
  }
}

function noteRow(text) {
  return build('tr', {}, build('td', { colspan: '4', class: 'hint', text }));
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
