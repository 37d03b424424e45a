// Pointing at the map of segments, by pointer and by keys: what lies there, and choosing it.

class StateInput {
  constructor(view) {
    this.view = view;
    const { scroller } = view;
    scroller.addEventListener('pointermove', event => this.point(event));
    scroller.addEventListener('pointerleave', () => { view.tip.hidden = true; });
    scroller.addEventListener('click', event => this.click(event));
    scroller.addEventListener('keydown', event => this.key(event));
  }

  hit(event) {
    const box = this.view.scroller.getBoundingClientRect();
    return mapHit(this.view.layout, event.clientX - box.left, event.clientY - box.top + this.view.scroller.scrollTop);
  }

  point(event) {
    const { view } = this;
    const hit = this.hit(event);
    if (!hit) { view.tip.hidden = true; return; }
    view.tip.replaceChildren(...this.lines(hit).map(([text, kind]) => build('div', { class: kind, text })));
    view.tip.hidden = false;
    const box = view.scroller.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const [w, h] = [view.tip.offsetWidth, view.tip.offsetHeight];
    const left = x + 14 + w > box.width ? Math.max(0, x - 14 - w) : x + 14;
    view.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(y + 18 + h > box.height ? y - h - 10 : y + 18)}px)`;
  }

  click(event) {
    const hit = this.hit(event);
    if (hit?.block) this.choose(hit.block, hit.segment);
  }

  choose(block, segment) {
    const { view } = this;
    view.focus.choose({ rows: view.state.rows, row: block.row });
    setText(view.pointed, this.lines({ segment, block }).map(([text]) => text).join(' · '));
  }

  lines({ segment, block, hole }) {
    const { device, state } = this.view;
    const place = `in a segment of ${iec(segment.bytes)}${segment.expandable ? ' (expandable)' : ''}, ${segment.small ? 'small' : 'large'} pool ${device.header.pools[segment.pool] ?? ''}, stream ${device.header.streams[segment.stream] ?? '?'}`;
    if (!block) return this.holeLines(segment, hole, place);
    const it = device.allocation(state.rows, block.row);
    return [[`${it.lineText}${block.pending ? ' (pending)' : ''}`, 'tip-name'], [iecExact(it.bytes), 'tip-size'],
      [`requested ${counted(it.requested)} bytes, rounding ${iec(it.bytes - it.requested)}`, ''],
      [`event ${it.born ? counted(it.born - 1) : 'before the recording'} ${it.freed === null ? 'to the end' : `to event ${counted(it.freed - 1)}`}`, ''],
      [`at ${it.address}, ${place}`, 'tip-moment']];
  }

  holeLines(segment, hole, place) {
    const { device, state } = this.view;
    if (!state.exact) return [[`nothing known, ${iec(hole.bytes)}`, 'tip-name'], [place, 'tip-moment']];
    const lines = [[`free, ${iecExact(hole.bytes)}`, 'tip-name']];
    if (!segment.pinnedBy) return [...lines, ['its segment is wholly free: releasable', ''], [place, 'tip-moment']];
    const names = segment.pinnedBy.slice(0, 3).map(line => (line < 0 ? 'no line known' : device.lineText(line)));
    const more = segment.pinnedBy.length - names.length;
    return [...lines, [`pinned by ${names.join('; ')}${more > 0 ? ` and ${more} more` : ''}`, ''], [place, 'tip-moment']];
  }

  // Left and right go through the blocks in the order of the map.
  key(event) {
    const { view } = this;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [];
    const seen = new Set();
    for (const { segment } of view.layout.pieces) {
      if (seen.has(segment)) continue;
      seen.add(segment);
      for (const block of segment.blocks) all.push({ block, segment });
    }
    if (all.length === 0) return;
    const chosen = view.focus.chosen;
    const at = chosen?.rows === view.state.rows ? all.findIndex(({ block }) => block.row === chosen.row) : -1;
    const next = all[at < 0 ? 0 : clamp(at + step, 0, all.length - 1)];
    this.choose(next.block, next.segment);
    this.bring(next.block, next.segment);
  }

  bring(block, segment) {
    const { layout, scroller } = this.view;
    const piece = layout.pieces.find(it => it.segment === segment && block.start < it.to);
    const y = piece.shelf * SHELF;
    if (y < scroller.scrollTop || y + SHELF > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y - SHELF;
  }
}
