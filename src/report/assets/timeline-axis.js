// Ticks and marks of a timeline: round numbers for both axes, and labels for steps, peaks and failures, thinned
// so that none covers another.

// Round byte values in [low, high]: 1, 2, 4, 8 ... of a unit apart. All are named in the unit of their distance,
// so that ticks of a narrow stretch differ.
function byteTicks(low, high, most) {
  let step = 1;
  while ((high - low) / step > most) step *= 2;
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) ticks.push({ value, text: tickBytes(value, step) });
  return ticks;
}

function tickBytes(value, step) {
  if (value === 0) return '0';
  let unit = 0;
  let divisor = 1;
  while (unit < BYTE_UNITS.length && value >= divisor * 1024 && (divisor * 1024 <= step * 4)) { divisor *= 1024; unit++; }
  const amount = value / divisor;
  const text = Number.isInteger(amount) ? counted(amount) : amount.toFixed(amount * 2 % 1 === 0 ? 1 : 2);
  return `${text} ${unit === 0 ? 'B' : BYTE_UNITS[unit - 1]}`;
}

function roundStep(span, most) {
  const rough = Math.max(span / most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough - 1e-9);
}

// Ticks of the horizontal axis. The label of event e stands where its effect begins, at moment e + 1.
function axisTicks(axis, view, most) {
  const step = roundStep(view.b - view.a, most);
  const ticks = [];
  const shift = axis.timed ? 0 : 1;
  for (let value = Math.ceil((view.a - shift) / step) * step; value + shift <= view.b; value += step) {
    if (value < 0) continue;
    ticks.push({ unit: value + shift, text: axis.timed ? tickTime(value, step) : counted(value) });
  }
  return ticks;
}

function tickTime(us, step) {
  if (us === 0) return '0';
  const [divisor, unit] = us >= 1e6 && step >= 1000 ? [1e6, 's'] : us >= 1000 && step >= 10 ? [1000, 'ms'] : [1, 'µs'];
  const digits = Math.max(0, Math.ceil(Math.log10(divisor / step) - 1e-9));
  return `${digits > 0 ? (us / divisor).toFixed(digits) : counted(us / divisor)} ${unit}`;
}

// Keeps intervals apart: `free(x0, x1)` is true, and takes the place, when nothing stands there yet.
class Lane {
  constructor() { this.taken = []; }

  free(x0, x1) {
    if (this.taken.some(([a, b]) => x0 < b && x1 > a)) return false;
    this.taken.push([x0, x1]);
    return true;
  }
}

// Marks of a device: what happened at which moment, most important first.
function marksOf(device) {
  const { peaks, ooms } = device;
  const failures = ooms.map(oom => ({ moment: oom.moment, kind: 'oom', text: 'OOM' }));
  const tops = [{ moment: peaks.allocated.moment, kind: 'peak', text: `peak ${iec(peaks.allocated.bytes)}` }];
  if (peaks.reserved.bytes > 0) {
    tops.push({ moment: peaks.reserved.moment, kind: 'reserved', text: `reserved ${iec(peaks.reserved.bytes)}` });
  }
  return [...failures, ...tops];
}

// Steps whose begin lies in a view, thinned to at most one per `least` pixels: every 2nd, 5th, 10th ...
function stepsIn(device, axis, view, width, least) {
  const { begin } = device.steps;
  const scale = width / (view.b - view.a);
  const [m0, m1] = [axis.momentAt(view.a), axis.momentAt(view.b)];
  const first = Math.max(0, lastAtMost(begin, m0 - 1, device.stepCount) + 1);
  const last = lastAtMost(begin, m1, device.stepCount);
  const every = roundStep((last - first + 1) * least / width, 1);
  const found = [];
  for (let step = Math.ceil(first / every) * every; step <= last; step += every) {
    found.push({ step, x: (axis.unit(begin[step]) - view.a) * scale });
  }
  return found;
}
