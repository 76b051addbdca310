import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { forKey, send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';
import { eventually } from '../../../helpers/until.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

// Each page of the console on a normal day and on three bad ones. SCREENS names a folder that keeps the pictures.

const RULES = `
domain: shop
descriptors:
  - {key: customer, rate_limit: {name: per-customer, unit: minute, requests_per_unit: 8}}
  - key: path
    value: /login*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 20}
  - {key: api_key, rate_limit: {unit: second, requests_per_unit: 10, algorithm: sliding_window_counter}}
`;

const SIZES = [
  [360, 780],
  [820, 1180],
  [1280, 800],
  [1920, 1080],
] as const;

const alice = [['customer', 'alice']] as const;

/** Each page, and a text that it has when it is ready. */
const PAGES: readonly (readonly [name: string, view: string, text: RegExp])[] = [
  ['overview', '', /of the last minute|request came/],
  ['rules', 'rules', /per-customer|customer/],
  ['rule', 'rule?path=shop.customer', /customer/],
  ['clients', 'client', /Clients/],
  ['client', forKey('client', 'shop', alice), /alice/],
  ['unmatched', 'unmatched', /custmer|no rule/],
  ['candidate', 'candidate', /Candidate/],
  ['usage', 'usage', /Usage/],
  ['health', 'health', /Store/],
  ['audit', 'audit', /Changes that operators made/],
];

let folder: string;
let redis: Redis;
let weir: Weir;
let browser: TestBrowser;
let page: Page;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'days-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
  browser = await startBrowser();
  const env = {
    ...{ ADMIN_TOKEN: TOKEN, EXPLAIN_SAMPLE: '100', USE_STATSD: 'false', REDIS_URL: redis.url, WORKERS: '2' },
    ...{ USAGE_DIR: join(folder, 'usage'), USAGE_INTERVAL: '1s', STORE_TIMEOUT: '300ms' },
  };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
  page = await browser.open({ reducedMotion: 'reduce' });
  await signIn(page, weir);
});
afterAll(async () => {
  expect(await browser.endTest()).toEqual([]);
  await browser.close();
  await weir.stop();
  await redis.stop();
});

const minute = async (customers: number, each: number): Promise<void> => {
  const names = ['alice', 'bob', 'carol', 'dan', 'erin', 'frank'].slice(0, customers);
  for (const name of names)
    await Promise.all(Array.from({ length: each }, () => send(weir, 'shop', [['customer', name]]).catch(() => 0)));
  for (const ip of ['10.0.0.7', '10.0.0.8']) await send(weir, 'shop', [['api_key', ip]]).catch(() => 0);
  await send(weir, 'shop', [['path', '/login?a']]).catch(() => 0);
  await send(weir, 'shop', [['custmer', 'alice']]).catch(() => 0);
};

/** What customers send every two seconds. */
let traffic = (): Promise<void> => minute(2, 1);
let steady: NodeJS.Timeout;
beforeAll(() => {
  steady = setInterval(() => void traffic(), 2_000);
});
afterAll(() => clearInterval(steady));

/** Looks at every page in every size: it fits, is accessible, and is kept as a picture if asked for. */
async function look(day: string): Promise<void> {
  const { SCREENS } = process.env;
  if (SCREENS) mkdirSync(SCREENS, { recursive: true });
  for (const [name, view, text] of PAGES)
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      await page.goto(viewAt(weir, view));
      await page.locator('main').filter({ hasText: text }).first().waitFor();
      await page.getByText('Live', { exact: true }).waitFor();
      if (SCREENS) {
        await page.waitForTimeout(300);
        await page.screenshot({ path: join(SCREENS, `${day}-${name}-${width}.png`) });
      }
      const where = `${day} ${name} ${width}`;
      expect({ where, overflow: await overflowOf(page) }).toEqual({ where, overflow: 0 });
      if (width === 1280)
        expect({ where, violations: await accessibilityViolations(page) }).toEqual({ where, violations: [] });
    }
}

test('every page fits four sizes on a normal day, and answers its question on the first screen', async () => {
  await minute(3, 4);
  await look('normal');
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(viewAt(weir, 'rules'));
  await page.locator('main').filter({ hasText: 'customer' }).first().waitFor();
  expect(await page.locator('main').innerText()).not.toContain(folder); // paths are relative to the folder of rules
  await page.goto(viewAt(weir, 'rule?path=shop.customer'));
  await page.getByText('rules.yaml:4').waitFor();
  expect(await page.locator('main').innerText()).not.toContain(folder);
  await page.goto(viewAt(weir, 'client'));
  await page.locator('main table').filter({ hasText: 'customer=alice' }).first().waitFor();
  await page.goto(viewAt(weir, 'health'));
  await page.getByText('Callers').first().waitFor();
  const states = await page.locator('main').innerText();
  for (const name of ['Callers', 'Deciders', 'Store', 'background work']) expect(states).toContain(name);
  expect(states).not.toMatch(/p99\s+0\b/);
});

test('navigation fits one line at 1280 px, and an unknown address says so', async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(viewAt(weir, 'nowhere'));
  await page.getByText('There is no such page').waitFor();
  const tops = (await page.evaluate(
    "[...document.querySelectorAll('nav a')].map((link) => Math.round(link.getBoundingClientRect().top))",
  )) as readonly number[]; // as written
  expect(new Set(tops).size).toBe(1);
});

test('every page fits on a day with a flood', async () => {
  traffic = () => minute(4, 12);
  await traffic();
  await page.goto(viewAt(weir));
  await page
    .getByText(/requests \(\d.* %\) of the last minute were refused/)
    .first()
    .waitFor();
  await look('flood');
});

test('every page fits on a day with broken rules', async () => {
  traffic = () => minute(2, 1);
  writeFileSync(join(folder, 'rules.yaml'), RULES.replace('unit: minute', 'unit: minit'));
  await page.goto(viewAt(weir));
  await page
    .getByText(/ewer rules are invalid/)
    .first()
    .waitFor();
  await look('broken-rules');
  writeFileSync(join(folder, 'rules.yaml'), RULES);
});

test('every page fits while the store is away, and changes are not offered then', async () => {
  await redis.stop();
  await page.goto(viewAt(weir));
  await page
    .getByText(/got no decision/)
    .first()
    .waitFor();
  await look('store-away');
  await page.goto(viewAt(weir));
  await page.getByText('What to do').first().waitFor();
  const problems = await page.locator('.situation, .finding p:not(.dim)').allInnerTexts();
  const said = problems.join(' ');
  for (const problem of problems) expect([problem, said.split(problem).length - 1]).toEqual([problem, 1]);
  await page.goto(viewAt(weir, 'audit'));
  await page.getByText(/The store does not answer .* AUDIT_LOG has every change/).waitFor();
  await page.goto(viewAt(weir, 'client'));
  await page.getByText(/The store does not answer .* Those in force go on/).waitFor();
  await page.goto(viewAt(weir, forKey('client', 'shop', alice)));
  await page.getByText('The store does not answer. Changes are possible again once it does.').first().waitFor();
  await eventually(async () => {
    const buttons = await page.getByRole('button', { name: /…$/ }).all();
    const states = await Promise.all(buttons.map((button) => button.isDisabled()));
    return states.every(Boolean);
  });
});
