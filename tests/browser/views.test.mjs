// The interactive report, in a browser: what it shows is what report.json and allocations.csv say.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { dataset, launch, open, reports, settle } from './reports.mjs';

const MOST_PAGE_BYTES = 3_000_000;
let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

for (const report of reports()) {
  describe(report.name, () => {
    let opened;
    const page = () => opened.page;
    const complete = () => page().evaluate(() => document.getElementById('timeline-0').memlab.device.complete);
    const exactAt = moment => page().evaluate(m => document.getElementById('timeline-0').memlab.device.totalsAt(m).exact, moment);
    before(async () => { opened = await open(browser, report); });
    after(async () => {
      assert.deepEqual(opened.faults, [], 'no console message and no request came up in all these tests');
      await opened.context.close();
    });

    test('opens from a file, asks for nothing and says nothing on the console', async () => {
      assert.ok(report.bytes < MOST_PAGE_BYTES, `${report.bytes} bytes`);
      const policy = await page().locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content');
      assert.match(policy, /default-src 'none'/);
      assert.deepEqual(opened.faults, []);
    });

    test('names are text: nothing of them runs, none becomes an element, and the layout holds', async () => {
      const found = await page().evaluate(() => ({
        pwned: window.pwned, wide: document.documentElement.scrollWidth, seen: window.innerWidth,
        strange: document.querySelectorAll('main img:not([src^="data:image/svg+xml;base64,"]), main script, main iframe, main b, [onerror]').length,
        // What would turn text around or paint a terminal is spelled out.
        unseen: /[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText),
      }));
      assert.equal(found.pwned, undefined);
      assert.equal(found.strange, 0);
      assert.ok(!found.unseen);
      assert.ok(found.wide <= found.seen, `${found.wide} > ${found.seen}`);
    });

    test('the counters and the lines on the page are those of report.json', async () => {
      const cells = await page().$$eval('[data-table="counters"][data-place="0"] tbody tr', rows => rows.map(row =>
        [row.cells[0].textContent, ...Array.from(row.querySelectorAll('[data-bytes]'), cell => Number(cell.dataset.bytes))]));
      const { peak } = report.device;
      assert.deepEqual(cells.find(row => row[0] === 'peak'),
        ['peak', peak.requested_bytes, peak.allocated_bytes, peak.active_bytes, peak.reserved_bytes]);
      const held = await columnOf(page(), 'held_at_peak_bytes');
      const wanted = report.device.lines.map(line => line.held_at_peak_bytes).slice(0, held.length);
      assert.ok(held.length > 0);
      assert.deepEqual(held.slice(0, wanted.length), wanted);
    });

    test('an event typed in shows its allocation, with the figures of allocations.csv', async () => {
      for (const row of await someAllocations(report, exactAt)) {
        await page().fill('#timeline-0 input.event', String(row.event));
        await page().click('#timeline-0 form button');
        await settle(page());
        const shown = await dataset(page(), 'timeline-0');
        assert.equal(Number(shown.moment), row.event + 1);
        assert.ok(Number(shown.viewFrom) <= row.event + 1 && Number(shown.viewTo) > row.event + 1);
        assert.ok(shown.selected.includes(`allocated by event ${row.event.toLocaleString('en-US')}`), shown.selected);
        const panel = await page().locator('#timeline-0 .selection').textContent();
        assert.ok(panel.includes(`${row.block.toLocaleString('en-US')} bytes at ${row.address}`), panel);
        assert.ok(panel.includes(`${row.requested.toLocaleString('en-US')} bytes`), panel);
        if (row.freed !== null) assert.ok(panel.includes(`given backby event ${row.freed.toLocaleString('en-US')}`), panel);
      }
    });

    test('zooming to one event leaves that event alone, and says what it did', async () => {
      for (const row of await someAllocations(report, exactAt)) {
        const seen = await page().evaluate(event => {
          const { memlab } = document.getElementById('timeline-0');
          memlab.setView(event + 1, event + 2);
          return memlab.describe(event + 1);
        }, row.event);
        const shown = await dataset(page(), 'timeline-0');
        assert.deepEqual([Number(shown.viewFrom), Number(shown.viewTo)], [row.event + 1, row.event + 2]);
        const change = seen.changes.find(change => change.what === 'allocated');
        assert.deepEqual([change.bytes, change.requested, change.address, change.freed],
          [row.block, row.requested, row.address, row.freed === null ? null : row.freed + 1]);
      }
      await page().evaluate(() => document.getElementById('timeline-0').memlab.timeline.reset());
    });

    test('the allocation under the pointer is one that is live there', async () => {
      const moment = peakMoment(report);
      if (!await exactAt(moment)) return;
      const spot = await page().evaluate(m => {
        const { memlab } = document.getElementById('timeline-0');
        memlab.setView(m, m + 1);
        memlab.timeline.paint();
        const { frame, device } = memlab.timeline;
        const { allocated } = device.totalsAt(m);
        return { x: frame.plot.x + frame.plot.w / 2, y: frame.y(allocated * 0.4) };
      }, moment);
      await page().locator('#timeline-0 .plot').scrollIntoViewIfNeeded();
      await page().locator('#timeline-0 .plot').click({ position: spot });
      await settle(page());
      assert.ok(await page().locator('#timeline-0 .tip').isVisible());
      const chosen = await page().evaluate(() => {
        const { focus, device } = document.getElementById('timeline-0').memlab;
        return device.allocation(focus.chosen.rows, focus.chosen.row);
      });
      const alike = report.allocations.find(row => row.address === chosen.address && row.block === chosen.bytes
        && (row.event ?? -1) + 1 === chosen.born);
      assert.ok(alike, JSON.stringify(chosen));
      assert.ok(chosen.born <= moment && (alike.freed === null || alike.freed + 1 > moment));
      await page().evaluate(() => document.getElementById('timeline-0').memlab.timeline.reset());
    });

    test('just below the upper edge of every band lies an allocation of its line', async () => {
      const moment = peakMoment(report);
      if (!await exactAt(moment)) return;
      let sum = 0;
      const bands = report.device.lines.slice(0, 10).map((line, rank) => ({ rank, bytes: line.held_at_peak_bytes, top: sum += line.held_at_peak_bytes }))
        .filter(band => band.bytes > 0);
      const found = await page().evaluate(([m, tops]) => {
        const { memlab } = document.getElementById('timeline-0');
        memlab.setView(m, m + 1);
        memlab.timeline.paint();
        const { frame, device } = memlab.timeline;
        return tops.map(top => {
          const { found } = memlab.timeline.hit(frame.plot.x + 5, frame.y(top - 1));
          return found && device.allocation(found.rows, found.row).line;
        });
      }, [moment, bands.map(band => band.top)]);
      assert.ok(bands.length > 0);
      assert.deepEqual(found, bands.map(band => band.rank));
      await page().evaluate(() => document.getElementById('timeline-0').memlab.timeline.reset());
    });

    test('every band\'s maximum over the whole recording is its line\'s own peak', async () => {
      if (!await complete()) return;
      await page().evaluate(() => document.getElementById('timeline-0').memlab.timeline.reset());
      await settle(page());
      const shown = await page().$$eval('#timeline-0 .legend tbody tr', rows => rows.map(row => row.cells[2].title));
      const lines = report.device.lines.slice(0, 10).filter(line => line.own_peak_bytes > 0);
      assert.ok(lines.length > 0);
      lines.forEach((line, i) => assert.equal(shown[i], `${line.own_peak_bytes.toLocaleString('en-US')} bytes`));
    });

    test('bands of every grouping add up to the total at the peak', async () => {
      const moment = peakMoment(report);
      if (!await exactAt(moment)) return;
      const names = await page().$$eval('#timeline-0 .view-tools select:first-of-type option', options => options.map(it => it.value));
      const sums = await page().evaluate(([m, names]) => {
        const { memlab } = document.getElementById('timeline-0');
        return names.filter(name => ['line', 'category', 'module', 'step', 'stream', 'size'].includes(name)).map(name => {
          memlab.setGrouping(name);
          const { grouping, device } = memlab.timeline;
          return [...grouping.table(device.windowOver(m)).seek(m)].reduce((sum, bytes) => sum + bytes, 0);
        });
      }, [moment, names]);
      await page().evaluate(() => document.getElementById('timeline-0').memlab.setGrouping('line'));
      assert.ok(sums.length >= 2);
      for (const sum of sums) assert.equal(sum, report.device.peak.allocated_bytes);
    });

    test('the state at the peak adds up to reserved, and its holes are report.json\'s', async () => {
      const { at_peak: wanted } = report.device.fragmentation;
      const moment = wanted.event === null ? 0 : wanted.event + 1;
      await page().evaluate(m => document.getElementById('state-0').memlab.setMoment(m), moment);
      await settle(page());
      const shown = await dataset(page(), 'state-0');
      const figure = name => Number(shown[name]);
      assert.equal(figure('reserved'), wanted.reserved_bytes);
      if (!await exactAt(moment)) return;
      assert.equal(figure('allocated') + figure('pending') + figure('stranded') + figure('releasable'), figure('reserved'));
      assert.deepEqual(['allocated', 'active', 'stranded', 'releasable'].map(figure),
        [wanted.allocated_bytes, wanted.active_bytes, wanted.stranded_bytes, wanted.releasable_bytes]);
      const pins = await page().evaluate(() => {
        const { state, device } = document.getElementById('state-0').memlab;
        return state.state.pins.map(pin => ({ ...pin, number: pin.line < 0 ? null : device.lines.line[pin.line] }));
      });
      const named = wanted.pins.filter(pin => pin.line !== null && pin.line !== undefined);
      for (const pin of named) {
        assert.ok(pins.some(it => it.number === pin.line && it.bytes === pin.stranded_bytes && it.sole === pin.sole_stranded_bytes),
          `${JSON.stringify(pin)} is not among ${JSON.stringify(pins)}`);
      }
    });

    test('the flame graph holds the peak, and all bytes; search and zoom work', async () => {
      const total = async () => Number((await dataset(page(), 'flame-0')).total);
      await page().selectOption('#flame-0 select', 'held');
      assert.equal(await total(), report.device.peak.allocated_bytes);
      await page().selectOption('#flame-0 select', 'total');
      const lines = [...report.device.lines, report.device.unattributed];
      if (!report.device.lines_left_out) assert.equal(await total(), lines.reduce((sum, line) => sum + line.total_bytes, 0));
      const all = await total();
      await page().locator('#flame-0 select').nth(1).selectOption('yours');
      assert.equal(await total(), all, 'leaving out library frames loses no bytes');
      await page().locator('#flame-0 select').nth(1).selectOption('all');
      await page().fill('#flame-0 input[type="search"]', 'forward');
      await settle(page());
      const { matched } = await dataset(page(), 'flame-0');
      const marked = await page().locator('#flame-0 .flame-frame.match').count();
      assert.ok(Number(matched) <= await total());
      assert.equal(marked > 0, Number(matched) > 0);
      await page().fill('#flame-0 input[type="search"]', '');
      const frames = page().locator('#flame-0 .flame-frame');
      await frames.nth(1).click();
      await page().keyboard.press('Escape');
      await page().keyboard.press('ArrowDown');
      assert.equal(await page().evaluate(() => document.activeElement.getAttribute('aria-level')), '2');
    });

    test('the table of lines searches and sorts', async () => {
      const table = '[data-table="lines"][data-place="0"]';
      await page().click(`${table} th[data-key="total_bytes"] button`);
      const sorted = await columnOf(page(), 'total_bytes');
      assert.deepEqual(sorted, [...sorted].sort((a, b) => b - a));
      const last = report.device.lines[report.device.lines.length - 1];
      const wanted = `:${last.line}`;
      await page().fill(`${table} input[type="search"]`, wanted);
      const left = await page().$$eval(`${table} tbody tr:not(.rest) th`, heads => heads.map(head => head.textContent));
      assert.ok(left.length > 0 && left.length <= report.device.lines.length);
      for (const text of left) assert.ok(text.includes(wanted), text);
      await page().fill(`${table} input[type="search"]`, '');
    });

    test('reserved is nowhere below what is allocated, also where detail is left out', async () => {
      const wrong = await page().evaluate(() => {
        const { device } = document.getElementById('timeline-0').memlab;
        const wrong = [];
        const known = device.knowsSegments;
        // With very many segments some are left out of the file, and reserved is known by cells alone.
        for (const knows of device.complete ? [known] : [known, false]) for (let n = 0; n <= 500; n++) {
          device.knowsSegments = knows;
          const totals = device.totalsAt(Math.floor(device.events * n / 500));
          const [reserved, used] = totals.exact ? [totals.reserved, totals.active]
            : [device.reservedIn(totals.from, totals.to + 1), totals.highest];
          if (reserved < used) wrong.push([n, reserved, used]);
        }
        device.knowsSegments = known;
        return wrong;
      });
      assert.deepEqual(wrong, []);
      const highest = await page().evaluate(() => { const { device } = document.getElementById('timeline-0').memlab; return device.reservedIn(0, device.events + 1); });
      assert.equal(highest, report.device.peak.reserved_bytes);
    });

    test('keys move the moment, zoom and tell it', async () => {
      await page().evaluate(() => document.getElementById('timeline-0').memlab.timeline.reset());
      await page().focus('#timeline-0 .plot');
      await page().keyboard.press('p');
      const peak = peakMoment(report);
      assert.equal(Number((await dataset(page(), 'timeline-0')).moment), peak);
      await page().keyboard.press('ArrowRight');
      await settle(page());
      assert.equal(Number((await dataset(page(), 'timeline-0')).moment), Math.min(report.device.events, peak + 1));
      assert.equal((await dataset(page(), 'state-0')).moment, (await dataset(page(), 'timeline-0')).moment);
      const status = await page().locator('#timeline-0 [aria-live]').first().textContent();
      assert.match(status, /after event [\d,]+ of [\d,]+ .*allocated .*reserved/);
      await page().keyboard.press('+');
      const narrow = await dataset(page(), 'timeline-0');
      assert.ok(Number(narrow.viewTo) - Number(narrow.viewFrom) < report.device.events + 1);
      await page().keyboard.press('Home');
      assert.equal((await dataset(page(), 'timeline-0')).moment, '0');
      await page().keyboard.press('End');
      assert.equal(Number((await dataset(page(), 'timeline-0')).moment), report.device.events);
      await page().keyboard.press('0');
      assert.equal((await dataset(page(), 'timeline-0')).viewFrom, '0');
    });

    test('wheel, drag, range and double click move the view', async () => {
      const plot = page().locator('#timeline-0 .plot');
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      const width = async () => { const { viewFrom, viewTo } = await dataset(page(), 'timeline-0'); return Number(viewTo) - Number(viewFrom); };
      const whole = await width();
      await page().mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      await page().mouse.wheel(0, -300);
      await settle(page());
      const zoomed = await width();
      assert.ok(zoomed < whole, `${zoomed} of ${whole}`);
      const from = Number((await dataset(page(), 'timeline-0')).viewFrom);
      await drag(page(), box, 0.5, 0.6);
      assert.ok(Number((await dataset(page(), 'timeline-0')).viewFrom) <= from);
      await page().keyboard.down('Shift');
      await drag(page(), box, 0.4, 0.6);
      await page().keyboard.up('Shift');
      assert.ok(await width() < zoomed / 3);
      await page().mouse.dblclick(box.x + box.width / 2, box.y + box.height / 2);
      assert.equal(await width(), whole);
    });

    test('dark is drawn dark, by the page\'s switch', async () => {
      await page().click('[data-theme-choice="light"]');
      const light = await picture(page());
      await page().click('[data-theme-choice="dark"]');
      const dark = await picture(page());
      assert.ok(brightness(await background(page())) < 60);
      assert.notEqual(dark, light);
      await page().click('[data-theme-choice="light"]');
      assert.ok(await picture(page()) === light, 'light again looks as before');
    });

    test('is quick: measured', async t => {
      const ms = await page().evaluate(async () => {
        const { timeline } = document.getElementById('timeline-0').memlab;
        const all = [];
        let [a, b] = [0, timeline.axis.end];
        while (b - a > 4) {
          [a, b] = [a + (b - a) * 0.15, b - (b - a) * 0.2];
          timeline.setUnits(a, b);
          const start = performance.now();
          timeline.paint();
          all.push(performance.now() - start);
        }
        timeline.reset();
        return all.sort((x, y) => x - y);
      });
      const [paint] = await page().evaluate(() => performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime));
      const median = ms[Math.floor(ms.length / 2)];
      t.diagnostic(`first paint ${paint?.toFixed(0)} ms, zoom frame ${median.toFixed(1)} ms median, ${ms[ms.length - 1].toFixed(1)} ms most`);
      assert.ok(median < 50, `${median} ms`);
    });

    test('fits a narrow screen, dark by the system', async () => {
      const narrow = await open(browser, report, { viewport: { width: 380, height: 800 }, colorScheme: 'dark' });
      const { wide, seen } = await narrow.page.evaluate(() => ({ wide: document.documentElement.scrollWidth, seen: window.innerWidth }));
      assert.ok(wide <= seen, `${wide} > ${seen}`);
      assert.ok(brightness(await background(narrow.page)) < 60);
      assert.deepEqual(narrow.faults, []);
      await narrow.context.close();
    });
  });
}

// Allocations to look at: the first, one in the middle, the last, and the one made at the peak, where rows exist.
async function someAllocations(report, exactAt) {
  const made = report.allocations.filter(row => row.event !== null && row.freed !== row.event);
  const peak = made.findLast(row => row.event < peakMoment(report));
  const wanted = [made[0], made[Math.floor(made.length / 2)], made[made.length - 1], peak].filter(Boolean);
  const found = [];
  for (const row of wanted) if (await exactAt(row.event + 1)) found.push(row);
  assert.ok(found.length > 0);
  return found;
}

// The moment of the peak of allocated bytes: after its event, or at the beginning.
function peakMoment(report) {
  const event = report.device.peak_event.allocated_bytes;
  return event === null ? 0 : event + 1;
}

// Exact values of a column of the table of lines, as shown.
function columnOf(page, key) {
  return page.$eval('[data-table="lines"][data-place="0"]', (box, key) => {
    const heads = Array.from(box.querySelectorAll('thead th'));
    const at = heads.findIndex(head => head.dataset.key === key && head.dataset.kind === 'bytes');
    return Array.from(box.querySelectorAll('tbody tr:not(.rest)'), row => Number(row.cells[at].dataset.bytes));
  }, key);
}

async function drag(page, box, from, to) {
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * (from + to) / 2, y, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 3 });
  await page.mouse.up();
  await settle(page);
}

// The timeline's picture as the screen shows it.
async function picture(page) {
  await page.mouse.move(0, 0);
  await settle(page);
  return (await page.locator('#timeline-0 .plot').screenshot()).toString('base64');
}

function background(page) {
  return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
}

function brightness(colour) {
  const [r, g, b] = colour.match(/\d+/g).map(Number);
  return (r + g + b) / 3;
}
