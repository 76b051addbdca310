import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { forKey, openLocally, send, viewAt } from '../../../helpers/console.ts';
import { openQuotaStream } from '../../../helpers/quota-client.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = {
  usage: 'descriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 1000000 } }]',
  edge: 'descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }]',
  shop: `
descriptors:
  - key: api
    rate_limit: { unit: second, requests_per_unit: 1000, share: { by: tenant } }
    descriptors:
      - { key: tenant, value: acme, share: { reserve: 20%, weight: 3, ceiling: 600 } }
      - { key: tenant, value: umbrella, share: { reserve: 300 } }
      - { key: tenant, value: initech, share: { reserve: 150, weight: 2 } }`,
  demo: `
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { max: 40, window: 100ms } }`,
};

/** UPDATE_SCREENSHOTS=1 saves a picture in the docs; otherwise they go to a folder that is removed. */
const isUpdate = process.env.UPDATE_SCREENSHOTS === '1';

let folder: string;
let weir: Weir;
let browser: TestBrowser;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'));
  mkdirSync(join(folder, 'rules'));
  for (const [domain, rules] of Object.entries(RULES))
    writeFileSync(join(folder, 'rules', `${domain}.yaml`), `domain: ${domain}\n${rules}\n`);
  browser = await startBrowser();
  const usage = { USAGE_DIR: join(folder, 'usage'), USAGE_INTERVAL: '100ms' };
  weir = await startWeir({ ...usage, RLQS: 'true', RULES_PATH: join(folder, 'rules'), USE_STATSD: 'false' });
});
afterAll(async () => {
  await browser.close();
  await weir.stop();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

/** Opens a view. */
async function show(view: string): Promise<Page> {
  const page = await browser.open({ viewport: { width: 1_024, height: 900 } });
  await openLocally(page, weir);
  await page.goto(viewAt(weir, view));
  return page;
}

/** Expects that a page is accessible and fits a wide window and a phone. */
async function expectReadable(page: Page): Promise<void> {
  for (const width of [1_024, 360]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await overflowOf(page)).toBe(0);
    expect(await accessibilityViolations(page)).toEqual([]);
  }
}

test('the usage page lists what keys have used, and shows one of them over time', async () => {
  await send(weir, 'usage', [['user', 'alice']], 3_000);
  await send(weir, 'usage', [['user', '<b>"\u202Ebob']], 1_000);
  const page = await show('usage');
  const row = page.getByRole('row').filter({ hasText: 'user=alice' });
  await row.waitFor();
  expect(await row.innerText()).toMatch(/^user=alice\s+3,000\s+75 %$/);
  expect(await page.getByRole('row').filter({ hasText: 'usage.user' }).innerText()).toMatch(/^usage\.user\s+4,000$/);
  const plot = (name: RegExp) => page.getByRole('figure', { name });
  await plot(/^Admitted hits of usage\.user\. .* hits per hour now, at most 4,000$/).waitFor();
  await page.getByLabel('Search keys').fill('alice');
  await page.getByText('1 key of 2').waitFor();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download CSV' }).click(),
  ]);
  expect(readFileSync(await file.path(), 'utf8')).toBe(
    'domain,rule,key,currency,used\r\n"usage","usage.user","user=alice","",3000',
  );
  await row.getByRole('link').click();
  await plot(/^Admitted hits of user=alice\. .* hits per hour now, at most 3,000$/).waitFor();
  await page.getByLabel('Time').selectOption('30d');
  await plot(/^Admitted hits of user=alice\. .* hits per day now, at most 3,000$/).waitFor();
  await page.getByLabel('Time').selectOption(new Date().toISOString().slice(0, 7));
  await page.getByText('The last day is not over yet.').waitFor();
  await expectReadable(page);
});

test('with a token for two domains, the usage page lists the rules of both, and no others', async () => {
  const env = { ADMIN_TOKEN: 'two:read@usage+shop:secret', USAGE_DIR: join(folder, 'other'), USAGE_INTERVAL: '100ms' };
  const limited = await startWeir({ ...env, RULES_PATH: join(folder, 'rules'), USE_STATSD: 'false' });
  for (const [domain, pairs] of [
    ['usage', [['user', 'ann']]],
    ['edge', [['user', 'ann']]],
    [
      'shop',
      [
        ['api', ''],
        ['tenant', 'acme'],
      ],
    ],
  ] as const)
    await send(limited, domain, pairs);
  const page = await browser.open({ viewport: { width: 1_024, height: 900 } });
  await page.goto(viewAt(limited, 'sign-in'));
  await page.getByLabel('Token').fill('secret');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(/two \(read/).waitFor();
  await page.goto(viewAt(limited, 'usage'));
  const row = (rule: string) => page.getByRole('row').filter({ hasText: rule });
  await row('usage.user').waitFor();
  await row('shop.api').first().waitFor();
  expect(await row('edge.user').count()).toBe(0);
  await limited.stop();
});

test("a rule's page shows the share, demand and usage of its proxies", async () => {
  const stream = openQuotaStream(`127.0.0.1:${weir.grpcPort}`, 'edge', 'envoy-1');
  stream.report({ user: 'ann' }, 400, 5);
  stream.report({ user: 'new' }, 1);
  await stream.next();
  const page = await show('rule?path=edge.user');
  const row = page.getByRole('row').filter({ hasText: 'user=ann' });
  await row.waitFor();
  expect(await row.innerText()).toMatch(/^envoy-1\s+user=ann\s+\d+ of 100\s+80\s+80$/);
  expect(await page.getByRole('row').filter({ hasText: 'user=new' }).innerText()).toMatch(/–\s+–$/);
  await expectReadable(page);
  stream.close();
});

test("a client's page shows who uses, borrows and lends of a shared limit", async () => {
  const hits = (tenant: string) => [['api', ''] as const, ['tenant', tenant] as const];
  const ask = () =>
    Promise.all([
      send(weir, 'shop', hits('acme'), 38),
      send(weir, 'shop', hits('initech'), 7),
      send(weir, 'shop', hits('globex'), 12),
    ]).catch(() => []); // the service may stop first
  const load = setInterval(() => void ask(), 100);
  const page = await show(forKey('client', 'shop', hits('acme')));
  const shares = page.getByRole('region', { name: 'Shares' });
  const row = (name: string) => shares.getByRole('row').filter({ hasText: name });
  await row('umbrella').getByText('idle').waitFor();
  expect(await row('umbrella').innerText()).toMatch(/idle\s+1\s+300\s+0\s+0\s+300$/);
  expect(await row('acme').innerText()).toMatch(/^tenant acme \(this one\)/);
  await shares.getByRole('img', { name: /^tenant initech: \d+ used, 0 of it borrowed/ }).waitFor();
  expect(await shares.getByRole('row').count()).toBe(4);
  const into = isUpdate ? 'docs/console' : join(folder, 'img');
  await shares.screenshot({ path: join(into, 'shares.png') });
  await expectReadable(page);
  clearInterval(load);
});

test("a client's page shows an adaptive limit, its hold times, and why it changed", async () => {
  const page = await show(
    forKey('client', 'demo', [
      ['service', 'billing'],
      ['request_id', ''],
    ]),
  );
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
  await expectReadable(page);
  await page.goto(viewAt(weir, 'rule?path=demo.service.request_id'));
  await page.getByText(/^of \d+, at most 40$/).waitFor();
  await page.getByRole('img', { name: /^\d+ of \d+ slots held/ }).waitFor();
  isStopped = true;
  await calls;
});

/** One of the callers, whose requests last 30 ms, until it is stopped. */
async function callAgain(caller: number, isStopped: () => boolean): Promise<void> {
  for (let at = 0; !isStopped(); at++) {
    const id = `${caller}-${at}`;
    const status = await ask(id);
    await wait(30);
    if (status === 200) await ask(id, { hits_addend: 200, is_negative_hits: true });
  }
}

/** @returns the HTTP status */
async function ask(id: string, release?: object): Promise<number> {
  const entries = [
    { key: 'service', value: 'billing' },
    { key: 'request_id', value: id },
  ];
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries, ...release }] });
  return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
}
