// The panel about one allocation: what it is, how long it lived, and its stack, innermost frame first.

class SelectionPanel {
  constructor(focus) {
    this.focus = focus;
    this.element = build('aside', { class: 'selection', 'aria-label': 'Chosen allocation', tabindex: '0' });
    this.shown = undefined;
  }

  update() {
    const { chosen, device } = this.focus;
    if (this.shown && chosen && this.shown.rows === chosen.rows && this.shown.row === chosen.row) return;
    if (this.shown === null && !chosen) return;
    this.shown = chosen;
    if (!chosen) {
      this.element.replaceChildren(build('p', { class: 'hint', text:
        'Point at a band to see the allocation under the pointer; click to keep it here with its stack.' }));
      return;
    }
    const it = device.allocation(chosen.rows, chosen.row);
    const frames = device.framesOf(it.stack);
    this.element.replaceChildren(
      build('div', { class: 'selection-head' }, build('strong', { text: iec(it.bytes) }),
        build('span', { text: it.lineText, title: it.line < 0 ? '' : device.lineText(it.line, true) }),
        button('×', 'Forget this allocation', () => this.focus.choose(null))),
      build('dl', {}, ...this.facts(it).flatMap(([name, text]) => [build('dt', { text: name }), build('dd', { text })])),
      this.moments(it), stackList(device, frames));
  }

  facts(it) {
    const { device } = this.focus;
    const time = moment => {
      const us = device.clock?.known(moment);
      return us === null || us === undefined ? '' : ` at ${span(us)}`;
    };
    const facts = [['block', `${counted(it.bytes)} bytes at ${it.address}`],
      ['requested', `${counted(it.requested)} bytes (${iec(it.bytes - it.requested)} rounding)`],
      ['allocated', it.born === 0 ? 'before the recording' : `by event ${counted(it.born - 1)}${time(it.born)}`],
      ['given back', it.freed === null ? 'never in this recording' : it.freed === 0 ? 'before the recording'
        : `by event ${counted(it.freed - 1)}${time(it.freed)}`]];
    if (it.freed !== null && it.done !== it.freed) {
      facts.push(['out of use', it.done === null ? 'never in this recording' : `by event ${counted(it.done - 1)}${time(it.done)}`]);
    }
    facts.push(['life', this.life(it)], ['stream', it.stream], ['category', it.category]);
    if (it.module) facts.push(['module', it.module]);
    if (it.step >= 0) facts.push(['step', device.stepName(it.step)]);
    if (it.inferred) facts.push(['note', 'its line is inferred: the backward pass has no Python frames']);
    return facts;
  }

  life(it) {
    const { device } = this.focus;
    if (it.freed === null) return `to the end (${counted(device.events - it.born)} events)`;
    const [from, to] = [device.clock?.known(it.born), device.clock?.known(it.freed)];
    const time = from !== undefined && from !== null && to !== undefined && to !== null ? `, ${span(to - from)}` : '';
    return `${counted(it.freed - it.born)} events${time}`;
  }

  moments(it) {
    const go = (text, moment) => build('button', { type: 'button', class: 'quiet', text,
      onclick: () => this.focus.setMoment(moment) });
    return build('p', { class: 'moments' }, go('go to its birth', it.born),
      it.freed === null ? null : go('go to its end', it.freed));
  }
}

function stackList(device, frames) {
  if (frames.length === 0) return build('p', { class: 'hint', text: 'No stack was recorded for it.' });
  const items = frames.map(frame => {
    const { called, at, path } = device.frameText(frame);
    return build('li', { title: path }, build('code', { text: called }), ' ', build('span', { class: 'at', text: at }));
  });
  return build('ol', { class: 'stack', 'aria-label': 'Stack, innermost frame first' }, ...items);
}
