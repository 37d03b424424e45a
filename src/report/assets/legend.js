// The legend of a timeline: a real table, which is also the picture's text alternative. Per band the bytes at the
// chosen moment, and the band's own maximum in view with the event at which it is reached.

class Legend {
  // `onMoment` goes to a moment; `onBand` points out a band (its place, or null).
  constructor(onMoment, onBand) {
    this.onMoment = onMoment;
    this.onBand = onBand;
    this.said = build('p', { class: 'view-said' });
    this.body = build('tbody');
    this.head = build('th', { scope: 'col', text: 'line' });
    const columns = ['at the moment', 'highest in view', 'at event'];
    this.element = build('div', { class: 'legend' },
      build('table', {}, build('thead', {}, build('tr', {}, this.head,
        ...columns.map(text => build('th', { scope: 'col', class: 'number', text })))), this.body), this.said);
    this.rows = [];
  }

  // Bands as rows, once per grouping; figures come with `update`.
  setBands(grouping, colours) {
    this.head.textContent = grouping.rule.title;
    const bands = [...grouping.bands,
      { label: 'allocated in all', full: '', colour: 'panel', sum: true },
      { label: 'pending', full: 'given back, but still in use by another stream', colour: 'pending' },
      { label: 'free in segments', full: 'reserved and not in use', colour: 'free' }];
    this.rows = bands.map(band => {
      const swatch = build('span', { class: 'view-swatch', 'aria-hidden': 'true' });
      const cells = [0, 1, 2].map(() => build('td', { class: 'number' }));
      const name = build('th', { scope: 'row', title: band.full || band.label }, swatch, build('span', { class: 'label-name', text: band.label }));
      return { band, swatch, cells, element: build('tr', { class: band.sum ? 'sum' : null }, name, ...cells) };
    });
    this.rows.slice(0, grouping.bands.length).forEach(({ element }, slot) => {
      for (const name of ['pointerenter', 'focusin']) element.addEventListener(name, () => this.onBand(slot));
      for (const name of ['pointerleave', 'focusout']) element.addEventListener(name, () => this.onBand(null));
    });
    this.body.replaceChildren(...this.rows.map(row => row.element));
    this.recolour(colours);
  }

  recolour(colours) {
    const striped = `repeating-linear-gradient(135deg, ${colours.pending} 0 2px, ${colours.free} 2px 4px)`;
    for (const row of this.rows) row.swatch.style.background = row.band.colour === 'pending' ? striped : bandColour(colours, row.band);
  }

  update(state) {
    const { device, grouping, focus, view } = state;
    const totals = device.totalsAt(focus.moment);
    const rows = device.windowOver(focus.moment);
    const sums = rows ? Array.from(grouping.table(rows).seek(focus.moment)) : null;
    const { cells, most } = maximaOf(grouping, view.m0, view.m1);
    this.rows.forEach((row, i) => {
      const band = i < most.length ? { now: sums ? sums[i] : null, ...most[i] } : this.rest(i - most.length, totals, state);
      setFigure(row.cells[0], band.now);
      if (band.bytes !== undefined) setFigure(row.cells[1], band.bytes);
      this.setEvent(row.cells[2], band);
      row.element.classList.toggle('empty', band.bytes === 0);
    });
    this.said.textContent = cells === 0 ? ''
      : `Detail is left out of this file here: maxima are those of whole cells of ${counted(cells)} events, bands of a column are those at its cell's highest total.`;
  }

  // The rows below the bands: the total, pending, free.
  rest(which, totals, state) {
    if (which === 0) return { now: totals.exact ? totals.allocated : null, ...highestIn(state.device, state.view) };
    if (!totals.exact) return { now: null };
    return { now: which === 1 ? totals.active - totals.allocated : totals.reserved - totals.active };
  }

  setEvent(cell, { bytes, moment, last }) {
    if (!(bytes > 0)) { cell.replaceChildren(); return; }
    const text = last === undefined ? (moment === 0 ? 'start' : counted(moment - 1)) : `${counted(Math.max(0, moment - 1))}–${counted(last - 1)}`;
    if (cell.firstChild?.textContent === text) return;
    cell.replaceChildren(build('button', { type: 'button', class: 'quiet', text,
      title: 'Go to this moment', onclick: () => this.onMoment(moment) }));
  }
}

// The highest total of a view: its moment where rows cover it, else the cell.
function highestIn(device, { m0, m1 }) {
  const rows = device.windowOver(m0, m1);
  if (rows) {
    const [moment] = rows.highLow(m0, m1);
    return { bytes: rows.allocated[moment - rows.from], moment };
  }
  const { levels } = device;
  const cell = levels.highestCell(m0, m1);
  return { bytes: levels.highest[cell], moment: levels.highestAt[cell] };
}

// Bytes into a cell: for people as text, exact as a title and for machines; a dash for what is not known.
function setFigure(cell, bytes) {
  const text = bytes === null ? '–' : iec(bytes);
  if (cell.textContent !== text) cell.textContent = text;
  const exact = bytes === null ? 'not in this file' : `${counted(bytes)} bytes`;
  if (cell.title !== exact) cell.title = exact;
}
