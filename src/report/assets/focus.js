// What the views of one device share: the moment that they show and the allocation that is chosen.

class Focus {
  constructor(device) {
    this.device = device;
    this.moment = clamp(device.peaks.allocated.moment, 0, device.events);
    this.chosen = null;
    this.listeners = [];
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  setMoment(moment) {
    const next = clamp(Math.round(moment), 0, this.device.events);
    if (next === this.moment) return;
    this.moment = next;
    this.tell();
  }

  // Chooses an allocation ({rows, row}, or null); `at` is the moment at which it was pointed at.
  choose(found, at = this.moment) {
    this.chosen = found ? { rows: found.rows, row: found.row, at } : null;
    this.tell();
  }

  get chosenText() {
    return this.chosen ? this.device.allocationText(this.chosen.rows, this.chosen.row) : '';
  }

  tell() {
    for (const listener of this.listeners) listener(this);
  }

  // The moment in words, for the status line and for screen readers.
  momentText() {
    const { device, moment } = this;
    const parts = [moment === 0 ? 'before the first event' : `after event ${counted(moment - 1)} of ${counted(device.events)}`];
    const time = device.clock?.known(moment);
    if (time !== null && time !== undefined) parts.push(span(time));
    const totals = device.totalsAt(moment);
    if (totals.exact) {
      parts.push(`allocated ${iecExact(totals.allocated)}`);
      if (totals.active > totals.allocated) parts.push(`pending ${iec(totals.active - totals.allocated)}`);
    } else {
      parts.push(`allocated between ${iec(totals.lowest)} and ${iec(totals.highest)} `
        + `(this file has no single events here; events ${counted(Math.max(0, totals.from - 1))} to ${counted(totals.to - 1)} are one cell)`);
    }
    parts.push(`reserved ${totals.exact || device.knowsSegments ? '' : 'at most '}${iec(totals.reserved)}`);
    return parts.join(' · ');
  }

  // What the event before the moment did, one line each.
  changeTexts() {
    const { device, moment } = this;
    const texts = device.changes(moment).map(change => `${change.what} ${iecExact(change.bytes)}, ${change.lineText}`);
    if (moment === 0) return texts;
    const known = device.knowsSegments || device.windowOver(moment - 1, moment + 1);
    const reserved = known ? device.reserved.at(moment) - device.reserved.at(moment - 1) : 0;
    if (reserved > 0) texts.push(`obtained ${iecExact(reserved)} from the driver`);
    if (reserved < 0) texts.push(`returned ${iecExact(-reserved)} to the driver`);
    const oom = device.ooms.find(it => it.moment === moment);
    if (oom) texts.push(`out of memory: a request of ${iecExact(oom.bytes)} failed`);
    return texts;
  }
}
