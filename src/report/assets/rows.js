// The allocations of one window of a recording, as typed arrays, and the totals at each of its moments.
// Owns what is live when; how rows are grouped into bands is bands.js's.

const NEVER = 0x7fffffff;
const [OP_BEGIN, OP_FREED, OP_DONE] = [0, 1, 2];
const EXTREMA_STRIDE = 128;

class Rows {
  constructor(blob, window, blockOfKind) {
    const packed = window.rows;
    Object.assign(this, { from: window.from, to: window.to, count: packed.begin.n });
    this.begin = Int32Array.from(blob.column(packed.begin));
    this.kind = Int32Array.from(blob.column(packed.kind));
    this.place = Int32Array.from(blob.column(packed.place));
    this.bytes = Float64Array.from(this.kind, kind => blockOfKind[kind]);
    this.initiallyPending = new Set(packed.initially_pending);
    this.ends(blob.column(packed.life), blob.column(packed.pending));
    this.times = window.times ? blob.column(window.times) : null;
  }

  // The moments from which a row is given back (`freed`) and out of use (`done`); NEVER when not recorded.
  ends(life, pending) {
    this.freed = new Int32Array(this.count).fill(NEVER);
    this.done = new Int32Array(this.count).fill(NEVER);
    for (let row = 0; row < this.count; row++) {
      if (life[row] === 0) continue;
      this.freed[row] = this.begin[row] + life[row] - 1;
      if (pending[row] !== 0) this.done[row] = this.freed[row] + pending[row] - 1;
    }
  }

  // Changes by moment: `opAt[m - from]` .. `opAt[m - from + 1]` are places in `ops`, each row * 4 + what.
  // What happens at moment `from` is part of the state there.
  index() {
    if (this.opAt) return;
    const length = this.to - this.from + 1;
    const at = new Int32Array(length + 1);
    this.eachOp((moment, _) => { at[moment - this.from + 1]++; });
    for (let i = 0; i < length; i++) at[i + 1] += at[i];
    this.ops = new Int32Array(at[length]);
    const next = at.slice();
    this.eachOp((moment, op) => { this.ops[next[moment - this.from]++] = op; });
    this.opAt = at;
    this.totals(length);
  }

  eachOp(visit) {
    const { from, to, begin, freed, done } = this;
    for (let row = 0; row < this.count; row++) {
      if (begin[row] > from && begin[row] <= to) visit(begin[row], row * 4 + OP_BEGIN);
      if (freed[row] > from && freed[row] <= to && freed[row] > begin[row]) visit(freed[row], row * 4 + OP_FREED);
      if (done[row] > from && done[row] <= to) visit(done[row], row * 4 + OP_DONE);
    }
  }

  totals(length) {
    this.allocated = new Float64Array(length);
    this.active = new Float64Array(length);
    let [allocated, active] = [0, 0];
    for (let row = 0; row < this.count && this.begin[row] <= this.from; row++) {
      if (this.freed[row] > this.from) allocated += this.bytes[row];
      if (this.done[row] > this.from) active += this.bytes[row];
    }
    for (let i = 0; i < length; i++) {
      for (let k = this.opAt[i]; k < this.opAt[i + 1]; k++) {
        const row = this.ops[k] >> 2;
        const what = this.ops[k] & 3;
        const bytes = this.bytes[row];
        if (what === OP_BEGIN) { active += bytes; if (this.freed[row] > this.begin[row]) allocated += bytes; }
        else if (what === OP_FREED) allocated -= bytes;
        else active -= bytes;
      }
      this.allocated[i] = allocated;
      this.active[i] = active;
    }
    this.extrema(length);
  }

  // The highest and lowest allocated total of every stride, by place: a view of many moments looks at strides.
  extrema(length) {
    const strides = Math.ceil(length / EXTREMA_STRIDE);
    this.highAt = new Int32Array(strides);
    this.lowAt = new Int32Array(strides);
    for (let s = 0; s < strides; s++) {
      let [high, low] = [s * EXTREMA_STRIDE, s * EXTREMA_STRIDE];
      const end = Math.min(length, high + EXTREMA_STRIDE);
      for (let i = high + 1; i < end; i++) {
        if (this.allocated[i] > this.allocated[high]) high = i;
        if (this.allocated[i] < this.allocated[low]) low = i;
      }
      this.highAt[s] = high;
      this.lowAt[s] = low;
    }
  }

  // The moments of the highest and of the lowest allocated total in [m0, m1), the first of equals.
  highLow(m0, m1) {
    const totals = this.allocated;
    let i = m0 - this.from;
    const end = m1 - this.from;
    let [high, low] = [i, i];
    while (i < end) {
      if (i % EXTREMA_STRIDE === 0 && i + EXTREMA_STRIDE <= end) {
        const stride = i / EXTREMA_STRIDE;
        if (totals[this.highAt[stride]] > totals[high]) high = this.highAt[stride];
        if (totals[this.lowAt[stride]] < totals[low]) low = this.lowAt[stride];
        i += EXTREMA_STRIDE;
      } else {
        if (totals[i] > totals[high]) high = i;
        if (totals[i] < totals[low]) low = i;
        i++;
      }
    }
    return [high + this.from, low + this.from];
  }

  covers(m0, m1 = m0 + 1) {
    return m0 >= this.from && m1 - 1 <= this.to;
  }

  isAllocated(row, moment) {
    return this.begin[row] <= moment && moment < this.freed[row];
  }

  // Rows active at a moment, in order of birth. Going forward from the moment asked for last is a short way:
  // rows are sorted by birth, so new ones come at the end.
  activeAt(moment) {
    let [kept, next] = [[], 0];
    if (this.activeMoment === moment) return this.activeRows;
    if (this.activeMoment < moment) [kept, next] = [this.activeRows.filter(row => this.done[row] > moment), this.activeNext];
    for (; next < this.count && this.begin[next] <= moment; next++) if (this.done[next] > moment) kept.push(next);
    this.activeMoment = moment;
    this.activeRows = kept;
    this.activeNext = next;
    return kept;
  }

  // Calls `visit(row, pending)` for every row active at a moment, in order of birth.
  eachActive(moment, visit) {
    for (const row of this.activeAt(moment)) visit(row, this.freed[row] <= moment);
  }

  // What changed between the moment before and this one: [row, what] pairs.
  changesAt(moment) {
    if (moment <= this.from || moment > this.to) return [];
    const i = moment - this.from;
    return Array.from(this.ops.subarray(this.opAt[i], this.opAt[i + 1]), op => [op >> 2, op & 3]);
  }
}
