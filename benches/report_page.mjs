// Measures report pages in headless Chromium, opened from disk: when something is seen, when everything answers,
// and what a zoom costs. Prints a Markdown table.
//
//   (cd tests/browser && npm install --no-package-lock)          once
//   CHROMIUM=/usr/bin/chromium node benches/report_page.mjs PAGE.html ...
//
// first paint: median of seven loads, each in a fresh context of a browser that has shown a page before. views: from
// the start of the load until timeline, state and flame graph are drawn. zoom: script time of a frame, and time until
// the frame after it, over some thirty zooms from the whole recording to a few events; in the first and the last of
// the three groupings that are asked for.
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const { chromium } = createRequire(new URL('../tests/browser/', import.meta.url))('playwright-core');
const LOADS = 7;
const median = values => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'] });

async function load(file) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  const page = await context.newPage();
  await page.goto(pathToFileURL(path.resolve(file)).href, { waitUntil: 'commit' });
  await page.waitForFunction(() => document.querySelector('#flame-0')?.memlab);
  const times = await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done({
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime, views: performance.now(),
  })))));
  return { context, page, ...times };
}

// Zooms in and measures each frame. Runs in the page.
async function zooms() {
  const { timeline, setGrouping } = document.getElementById('timeline-0').memlab;
  const frame = () => new Promise(done => requestAnimationFrame(done));
  const script = [], shown = [];
  for (const grouping of ['line', 'category', 'size']) {
    setGrouping(grouping);
    await frame();
    for (let [a, b] = [0, timeline.axis.end]; b - a > 4; [a, b] = [a + (b - a) * 0.25, b - (b - a) * 0.25]) {
      timeline.setUnits(a, b);
      const start = performance.now();
      timeline.paint();
      script.push(performance.now() - start);
      await frame();
      shown.push(performance.now() - start);
    }
  }
  return { script, shown };
}

console.log('| page | size, KB | first paint, ms | views drawn, ms | zoom, script ms: median, most | zoom, next frame ms: median, most |');
console.log('| --- | ---: | ---: | ---: | ---: | ---: |');
await (await browser.newContext()).newPage();
for (const file of process.argv.slice(2)) {
  const paints = [], views = [];
  let last;
  for (let n = 0; n < LOADS; n++) {
    await last?.context.close();
    last = await load(file);
    paints.push(last.paint);
    views.push(last.views);
  }
  const { script, shown } = await last.page.evaluate(zooms);
  await last.context.close();
  const most = values => Math.max(...values).toFixed(1);
  console.log(`| ${path.basename(file)} | ${(statSync(file).size / 1000).toFixed(0)} | ${median(paints).toFixed(0)} | ${median(views).toFixed(0)} `
    + `| ${median(script).toFixed(1)}, ${most(script)} | ${median(shown).toFixed(1)}, ${most(shown)} |`);
}
await browser.close();
