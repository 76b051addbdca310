import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { send, viewAt } from '../../../helpers/console.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 1000000 } }]
`;

let weir: Weir;
let browser: TestBrowser;
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'console-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  const usage = { USAGE_DIR: join(folder, 'usage'), USAGE_INTERVAL: '100ms' };
  weir = await startWeir({ ...usage, RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false' });
  await send(weir, 'demo', [['user', 'alice']], 3_000);
  await send(weir, 'demo', [['user', '<b>"\u202Ebob']], 1_000);
});
afterAll(async () => {
  await browser.close();
  await weir.stop();
});

test('the usage page lists what keys have used, and shows one of them over time', async () => {
  const page = await browser.open();
  await page.goto(viewAt(weir, 'usage'));
  const row = page.getByRole('row').filter({ hasText: 'user=alice' });
  await page.getByText('4,000 hits in total').waitFor();
  expect(await row.innerText()).toMatch(/^user=alice\s+demo\.user\s+3,000\s+75 %$/);
  const plot = (name: RegExp) => page.getByRole('figure', { name });
  await plot(/^Admitted hits\. .* hits per hour now, at most 4,000$/).waitFor();
  await row.getByRole('link').click();
  await plot(/^Admitted hits of user=alice\. .* hits per hour now, at most 3,000$/).waitFor();
  await page.getByLabel('30 days').check();
  await plot(/^Admitted hits of user=alice\. .* hits per day now, at most 3,000$/).waitFor();
  expect(await overflowOf(page)).toBe(0);
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 900 });
  expect(await overflowOf(page)).toBe(0);
  expect(browser.problems).toEqual([]);
});
