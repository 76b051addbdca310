import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { forKey, viewAt } from '../../../helpers/console.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { max: 40, window: 100ms } }
`;

let weir: Weir;
let browser: TestBrowser;
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'console-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await startWeir({ RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false' });
});
afterAll(async () => {
  await browser.close();
  await weir.stop();
});

/** @returns the HTTP status */
async function ask(id: string, release?: object): Promise<number> {
  const entries = [
    { key: 'service', value: 'billing' },
    { key: 'request_id', value: id },
  ];
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries, ...release }] });
  return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
}

/** One of the callers, whose requests last 30 ms, until it is stopped. */
async function callAgain(caller: number, isStopped: () => boolean): Promise<void> {
  for (let at = 0; !isStopped(); at++) {
    const id = `${caller}-${at}`;
    const status = await ask(id);
    await wait(30);
    if (status === 200) await ask(id, { hits_addend: 200, is_negative_hits: true });
  }
}

test("a client's page shows an adaptive limit, its hold times, and why it changed", async () => {
  const page = await browser.open({ viewport: { width: 1_024, height: 900 } });
  const billing = viewAt(
    weir,
    forKey('client', 'demo', [
      ['service', 'billing'],
      ['request_id', ''],
    ]),
  );
  await page.goto(billing);
  const limit = page.getByRole('region', { name: 'Adaptive limit' });
  await limit.getByText('Limit now: 4 slots, the minimum, as nothing has been measured.').waitFor();
  expect(await limit.innerText()).toContain('No hold times are measured yet.');

  let isStopped = false;
  const calls = Promise.all(Array.from({ length: 8 }, (_, caller) => callAgain(caller, () => isStopped)));
  await limit.getByRole('img', { name: /^Hold time: [\d.]+ ms, without a queue [\d.]+ ms$/ }).waitFor();
  await limit.getByText(/Held for [\d.]+ ms on average in the last window, [\d.]+ × the/).waitFor();
  await page.getByText(/^\d+ of \d+ slots in use, 1 requested; the oldest for .+ of a ttl of 30 s$/).waitFor();
  expect(await limit.innerText()).not.toContain('nothing has been measured');
  await page.getByText(/^\d+ \+ 1 = \d+ [≤>] \d+$/).waitFor();
  for (const width of [1_024, 360]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await overflowOf(page)).toBe(0);
    expect(await accessibilityViolations(page)).toEqual([]);
  }
  await page.goto(viewAt(weir, 'rule?path=demo.service.request_id'));
  await page.getByText(/^of \d+, at most 40$/).waitFor();
  await page.getByRole('img', { name: /^\d+ of \d+ slots held/ }).waitFor();
  isStopped = true;
  await calls;
  expect(browser.problems).toEqual([]);
});
