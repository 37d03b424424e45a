// What the browser tests stand on: the folders with reports, a browser, and pages opened in it under watch.
import { readFileSync, readdirSync, existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

// Every folder with a report under $REPORTS: {name, page, bytes, trace}.
function all() {
  const root = process.env.REPORTS;
  if (!root) throw new Error('REPORTS names no folder');
  const found = readdirSync(root).filter(name => existsSync(path.join(root, name, 'report.html'))).sort();
  if (found.length === 0) throw new Error('there is no report.html in any folder of REPORTS');
  return found.map(name => {
    const folder = path.join(root, name);
    const trace = JSON.parse(readFileSync(path.join(folder, 'report.json'), 'utf8')).traces[0];
    return { name, folder, page: path.join(folder, 'report.html'), bytes: statSync(path.join(folder, 'report.html')).size, trace };
  });
}

// Every report of an allocator's events, with its first device and that one's allocations.
export function reports() {
  return all().filter(({ trace }) => trace.devices.length > 0).map(report => {
    const [device] = report.trace.devices;
    return { ...report, device, allocations: readAllocations(path.join(report.folder, 'allocations.csv'), device.device) };
  });
}

// Every report with driver calls.
export function driverReports() {
  return all().filter(({ trace }) => trace.driver);
}

// Rows of allocations.csv of one device. Columns that are used here hold neither quotes nor commas, so lines with
// either (names of files may have them) are left out.
function readAllocations(file, device) {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const names = lines[0].split(',');
  const at = name => names.indexOf(name);
  const number = text => (text === '' ? null : Number(text));
  return lines.slice(1).filter(line => !line.includes('"')).map(line => line.split(','))
    .filter(cells => cells.length === names.length && Number(cells[at('device')]) === device)
    .map(cells => ({
      address: '0x' + BigInt(cells[at('address')]).toString(16), requested: number(cells[at('requested_bytes')]),
      block: number(cells[at('block_bytes')]), event: number(cells[at('alloc_event')]),
      freed: number(cells[at('free_requested_event')]), file: cells[at('file')], line: number(cells[at('line')]),
    }));
}

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'] });
}

// Opens a report from file:// and waits for its views.
export async function open(browser, report, options = {}) {
  const opened = await openPlain(browser, report, options);
  await opened.page.waitForFunction(() => document.querySelector('#timeline-0')?.memlab && document.querySelector('#state-0')?.memlab
    && document.querySelector('#flame-0')?.memlab, null, { timeout: 30_000 });
  return opened;
}

// Opens a report from file://, whatever it has. `faults` collects what must not happen.
export async function openPlain(browser, report, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const faults = [];
  context.on('request', request => {
    if (!/^(file|data|blob):/.test(request.url())) faults.push(`request: ${request.url()}`);
  });
  const page = await context.newPage();
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`); });
  page.on('pageerror', error => faults.push(`error: ${error.message}`));
  await page.goto(pathToFileURL(report.page).href);
  return { context, page, faults };
}

export const settle = page => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));

export const dataset = (page, id) => page.evaluate(id => ({ ...document.getElementById(id).dataset }), id);
