// Writes a snapshot (as JSON, which memlab reads too) whose names want to be run, to turn the text around, to
// paint a terminal, or to break the layout:   node hostile.mjs > hostile.json
const NAMES = [
  '</script><script>window.pwned=1</script>', '"><img src=x onerror="window.pwned=1">', "'-alert(1)-'", '<!--', ']]>', '<b>bold</b>',
  '&lt;script&gt;', 'javascript:window.pwned=1', '\u001b[31mred\u001b[0m', '\u202Egnp.elif\u202C', '\u0000\u0007', '{{constructor.constructor("window.pwned=1")()}}',
  `${'x'.repeat(10_000)}.py`, `/${'very/'.repeat(1_000)}long.py`, '\uD83D\uDE00 \u0301\u0301\u0301\u0301', '\n\r\t', '=cmd|calc!A1', '',
];
const BASE = 0x7f0000000000;
const events = [{ action: 'segment_alloc', addr: BASE, size: 20 << 20, stream: 0, time_us: 1, frames: [] }];
let at = 0;
for (let round = 0; round < 4; round++) {
  for (const [place, name] of NAMES.entries()) {
    const size = (place + 1) * 4096;
    events.push({ action: 'alloc', addr: BASE + at, size, stream: 0, time_us: 10 * events.length, user_metadata: name,
      frames: [{ filename: name, line: place + 1, name }, { filename: 'main.py', line: 9, name: NAMES[(place + 7) % NAMES.length] }] });
    at += size;
  }
}
events.push({ action: 'oom', addr: 0, size: 1 << 30, stream: 0, time_us: 10 * events.length, device_free: 0,
  frames: [{ filename: NAMES[0], line: 1, name: NAMES[1] }] });
process.stdout.write(JSON.stringify({ segments: [], device_traces: [events], external_annotations: NAMES.flatMap((name, place) => [
  { stage: 'START', name, device: 0, time_us: 10 * place + 2 }, { stage: 'END', name, device: 0, time_us: 10 * place + 9 }]) }));
