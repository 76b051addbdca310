import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { viewAt } from '../../../helpers/console.ts';
import { openQuotaStream, type QuotaStreamClient } from '../../../helpers/quota-client.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }]
`;

let folder: string;
let weir: Weir;
let browser: TestBrowser;
let streams: readonly QuotaStreamClient[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await startWeir({ RLQS: 'true', RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false' });
  streams = [openQuotaStream(`127.0.0.1:${weir.grpcPort}`, 'edge', 'envoy-1')];
  for (const stream of streams) {
    stream.report({ user: 'ann' }, 400, 5);
    stream.report({ user: 'new' }, 1);
    await stream.next();
  }
});
afterAll(async () => {
  await browser.close();
  for (const stream of streams) stream.close();
  await weir.stop();
});

test("a rule's page shows the share, demand and usage of its proxies", async () => {
  const page = await browser.open();
  await page.goto(viewAt(weir, 'rule?path=edge.user'));
  const row = page.getByRole('row').filter({ hasText: 'user=ann' });
  await row.waitFor();
  expect(await row.innerText()).toMatch(/^envoy-1\s+user=ann\s+\d+ of 100\s+80\s+80$/);
  expect(await page.getByRole('row').filter({ hasText: 'user=new' }).innerText()).toMatch(/–\s+–$/);
  expect(await overflowOf(page)).toBe(0);
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 900 });
  expect(await overflowOf(page)).toBe(0);
  expect(browser.problems).toEqual([]);
});
