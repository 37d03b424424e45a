// Driver calls in a browser: a page of both layers, and one that has nothing but driver calls.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { driverReports, launch, openPlain } from './reports.mjs';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

const all = driverReports();
test('there is a page of both layers, and one of driver calls alone', { skip: all.length === 0 }, () => {
  assert.deepEqual(new Set(all.map(report => report.trace.devices.length > 0)), new Set([true, false]));
});

for (const report of all) {
  describe(`${report.name}, driver calls`, () => {
    let opened;
    const page = () => opened.page;
    const { driver } = report.trace;
    const table = kind => `#driver [data-table="${kind}"][data-place="0"]`;
    before(async () => { opened = await openPlain(browser, report); });
    after(async () => {
      assert.deepEqual(opened.faults, [], 'no console message and no request came up in all these tests');
      await opened.context.close();
    });

    test('the sum table\'s figures are those of report.json, and every column adds up', async () => {
      const [device] = driver.devices;
      if (device.sums.length === 0) {
        assert.equal(await page().locator(table('driver-sums')).count(), 0);
        return;
      }
      const shown = await page().$eval(table('driver-sums'), box => ({
        moments: Array.from(box.querySelectorAll('thead th'), head => head.dataset.key).slice(1),
        rows: Array.from(box.querySelectorAll('tbody tr'), row => ({
          part: row.cells[0].textContent.trim(),
          cells: Array.from(row.cells).slice(1).map(cell => (cell.dataset.bytes === undefined ? null : Number(cell.dataset.bytes))),
        })),
      }));
      assert.ok(shown.moments.length > 1);
      const inUse = shown.rows.find(row => row.part.startsWith('in use'));
      const process = shown.rows.find(row => row.part.startsWith('this process'));
      shown.moments.forEach((at, column) => {
        const sum = device.sums.findLast(sum => sum.at === at);
        const cell = begin => shown.rows.find(row => row.part.startsWith(begin)).cells[column];
        assert.equal(inUse.cells[column], sum.used_bytes);
        for (const { holder, bytes } of sum.parts) assert.equal(cell(holder), bytes, `${holder} ${at}`);
        assert.deepEqual(['context', 'loaded', 'others', 'unknown', 'this process'].map(cell),
          [sum.context_bytes, sum.loaded_bytes, sum.others_bytes, sum.unknown_bytes, sum.process_bytes]);
        const parts = shown.rows.filter(row => row !== inUse && row !== process);
        assert.equal(parts.reduce((total, row) => total + row.cells[column], 0), sum.used_bytes, at);
      });
    });

    test('holders and lines are those of report.json, and sort by any figure', async () => {
      for (const [kind, rows] of [['driver-holders', driver.devices[0].holders], ['driver-lines', driver.devices[0].lines]]) {
        assert.ok(rows.length > 0);
        for (const key of ['at_peak_bytes', 'total_bytes', 'own_peak_bytes']) {
          // A table of one row has nothing to sort.
          if (rows.length > 1) await page().click(`${table(kind)} th[data-key="${key}"][data-kind="bytes"] button`);
          const wanted = rows.map(row => row[key]);
          const descending = await page().$eval(`${table(kind)} th[data-key="${key}"][data-kind="bytes"]`, head => head.ariaSort === 'descending');
          const shown = await columnOf(page(), table(kind), key);
          assert.deepEqual(shown, wanted.sort((a, b) => (descending ? b - a : a - b)), `${kind} by ${key}`);
        }
      }
    });

    test('the picture of the holders is in the page and can be seen', async () => {
      const picture = page().locator('#driver img.picture').first();
      await picture.scrollIntoViewIfNeeded();
      assert.ok(await picture.evaluate(async image => { await image.decode(); return image.naturalWidth > 0; }));
    });

    test('no view, section or table is empty, and every entry of the contents leads somewhere', async () => {
      const found = await page().evaluate(() => ({
        views: document.querySelectorAll('.view').length,
        empty: Array.from(document.querySelectorAll('main section, .view, .table tbody')).filter(it => it.innerText.trim() === '').map(it => it.id || it.outerHTML.slice(0, 80)),
        lost: Array.from(document.querySelectorAll('.contents a, .inner a')).map(link => link.getAttribute('href')).filter(to => !document.querySelector(to)),
      }));
      assert.deepEqual(found.empty, []);
      assert.deepEqual(found.lost, []);
      assert.equal(found.views > 0, report.trace.devices.length > 0, 'views are for what the allocator did');
    });

    test('fits a narrow screen and a wide one, dark by the system', async () => {
      for (const width of [380, 1400]) {
        const dark = await openPlain(browser, report, { viewport: { width, height: 800 }, colorScheme: 'dark' });
        const seen = await dark.page.evaluate(() => [document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]);
        assert.ok(seen[0] <= width, `${seen[0]} > ${width}`);
        assert.ok(seen[1].match(/\d+/g).slice(0, 3).every(part => Number(part) < 60), seen[1]);
        assert.deepEqual(dark.faults, []);
        await dark.context.close();
      }
    });
  });
}

// Exact values of a column, as shown.
function columnOf(page, table, key) {
  return page.$eval(table, (box, key) => {
    const heads = Array.from(box.querySelectorAll('thead th'));
    const at = heads.findIndex(head => head.dataset.key === key && head.dataset.kind === 'bytes');
    return Array.from(box.querySelectorAll('tbody tr:not(.rest)'), row => Number(row.cells[at].dataset.bytes));
  }, key);
}
