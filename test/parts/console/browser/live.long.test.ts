import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { startBrowser, type TestBrowser, watch } from '../../../helpers/browser.ts';
import { send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { freePort } from '../../../helpers/process.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';
import { until } from '../../../helpers/until.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

let rules: string;
let browser: TestBrowser;
/** A service whose rules the tests change. */
let weir: Weir;
beforeAll(async () => {
  rules = join(mkdtempSync(join(tmpdir(), 'console-')), 'rules.yaml');
  writeFileSync(rules, rulesOf(['user']));
  browser = await startBrowser();
  weir = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' }, { args: ['--rules', rules] });
});
afterAll(async () => {
  await browser.close();
  await weir.stop();
});
beforeEach(() => writeFileSync(rules, rulesOf(['user'])));
afterEach(async () => expect(await browser.endTest()).toEqual([]));

const rulesOf = (keys: readonly string[]): string =>
  `domain: demo\ndescriptors:\n${keys.map((key) => `  - {key: ${key}, rate_limit: {unit: year, requests_per_unit: 5}}\n`).join('')}`;

const isLive = (page: Page): Promise<void> => page.getByText('Live', { exact: true }).waitFor();

test('a reload of rules and the problems of invalid ones are shown while the page is open', async () => {
  const page = await browser.open();
  await signIn(page, weir);
  await page.goto(viewAt(weir, 'rules'));
  await page.getByRole('link', { name: 'demo.user' }).waitFor();
  writeFileSync(rules, rulesOf(['user', 'tenant']));
  await page.getByRole('link', { name: 'demo.tenant' }).waitFor();
  writeFileSync(
    rules,
    'domain: demo\ndescriptors:\n  - {key: user, rate_limit: {unit: fortnight, requests_per_unit: 5}}\n',
  );
  await page.getByText('The newest rules are invalid').waitFor();
  await page.getByText(/invalid rate limit unit 'fortnight'/).waitFor();
  await page.getByRole('link', { name: 'demo.tenant' }).waitFor(); // still in force
  writeFileSync(rules, rulesOf(['user']));
  await page.getByText('The newest rules are invalid').waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'demo.tenant' }).waitFor({ state: 'detached' });
});

test('the console works behind a proxy that puts a prefix before its paths', async () => {
  const outside: string[] = [];
  const proxy = createServer((incoming, response) => {
    const { url = '', method, headers } = incoming;
    if (!url.startsWith('/tools/weir/')) {
      outside.push(url);
      return void response.writeHead(404).end();
    }
    const path = url.slice('/tools/weir'.length);
    const onward = forward({ host: '127.0.0.1', port: weir.debugPort, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    incoming.pipe(onward);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve));
  try {
    for (let hit = 0; hit < 7; hit++) await send(weir, 'demo', [['user', 'victor']]);
    const page = await browser.open();
    await page.goto(`http://localhost:${port}/tools/weir/console/#/sign-in`);
    await page.getByLabel('Token').fill(TOKEN);
    await page.getByRole('button', { name: 'Sign in' }).click();
    const row = page.getByRole('row', { name: 'user=victor' });
    await row.getByRole('link', { name: 'user=victor', exact: true }).click();
    await page.getByText('7 + 1 = 8 > 5').waitFor();
    await page.goto(`http://localhost:${port}/tools/weir/console#/health`);
    await isLive(page);
    expect(outside.filter((path) => path !== '/favicon.ico')).toEqual([]);
    await page.close();
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
});

test('no change is offered while the service cannot be reached', async () => {
  const gone = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' }, { args: ['--rules', rules] });
  try {
    for (let hit = 0; hit < 7; hit++) await send(gone, 'demo', [['user', 'yvonne']]);
    const page = await browser.open();
    await signIn(page, gone);
    await page.goto(viewAt(gone));
    const letIn = page.getByRole('link', { name: 'Let in user=yvonne' });
    await letIn.waitFor();
    await gone.stop();
    await page.getByText('Disconnected', { exact: true }).waitFor();
    await letIn.waitFor({ state: 'detached' });
  } finally {
    await gone.stop();
  }
});

/** More than a browser opens connections to a host. */
const PAGES = 8;

test('pages of one browser are all updated, over one stream', async () => {
  const first = await browser.open();
  await signIn(first, weir);
  const pages = [first];
  while (pages.length < PAGES) {
    const page = await first.context().newPage();
    watch(page, browser.problems);
    pages.push(page);
  }
  for (const page of pages) await page.goto(viewAt(weir), { waitUntil: 'commit' });
  for (const page of pages) await isLive(page);
  for (let hit = 0; hit < 7; hit++) await send(weir, 'demo', [['user', 'walter']]);
  for (const page of pages) await page.getByRole('row', { name: 'user=walter' }).waitFor();
});

test('a thousand rules are listed, searched and shown at once', async () => {
  writeFileSync(rules, rulesOf(Array.from({ length: 1_000 }, (_, at) => `key${at}`)));
  const page = await browser.open();
  await signIn(page, weir);
  await page.goto(viewAt(weir, 'rules'));
  await page.getByText('1,000 rules').waitFor();
  await send(weir, 'demo', [['key900', 'x']], 6);
  await page.getByLabel('Refused most').check();
  await page.getByRole('row', { name: 'demo.key900' }).first().waitFor();
  await page.getByLabel('Search').fill('key77');
  await page.getByText('11 of 1,000 rules').waitFor();
  await page.getByRole('link', { name: 'demo.key770' }).click();
  await page.getByRole('heading', { name: 'demo.key770' }).waitFor();
});

test('requests without a decision are stated with their reason while there are any', async () => {
  const delaying = join(mkdtempSync(join(tmpdir(), 'console-')), 'rules.yaml');
  writeFileSync(
    delaying,
    'domain: demo\ndescriptors:\n  - {key: user, rate_limit: {algorithm: leaky_bucket, unit: hour, requests_per_unit: 1, max_delay: 1h}}\n',
  );
  const env = { MAX_IN_FLIGHT_CALLS: '1', DRAIN_TIMEOUT: '0', USE_STATSD: 'false' };
  const full = await startWeir(env, { args: ['--rules', delaying] });
  const calling = setInterval(() => void send(full, 'demo', [['user', 'alice']]).catch(() => {}), 50); // one is held
  try {
    const page = await browser.open();
    await page.goto(viewAt(full));
    const sentence = page.getByRole('heading', { name: /got no decision.*: too many calls are in flight/ });
    await sentence.waitFor();
    clearInterval(calling);
    await sentence.waitFor({ state: 'detached' });
  } finally {
    clearInterval(calling);
    await full.stop();
  }
});

describe('with counters in Redis', () => {
  let redis: Redis;
  let env: Readonly<Record<string, string>>;
  let second: Weir;
  beforeAll(async () => {
    redis = await startRedis();
    env = { REDIS_URL: redis.url, USE_STATSD: 'false' };
    second = await startWeir(env, { args: ['--rules', rules] });
  });
  afterAll(async () => {
    await second.stop();
    await redis.stop();
  });

  test('instances on the same Redis are listed', async () => {
    const first = await startWeir(env, { args: ['--rules', rules] });
    try {
      const page = await browser.open();
      await page.goto(viewAt(second, 'health'));
      await page.getByText('(this one)').waitFor();
      await page.getByRole('row').nth(2).waitFor();
    } finally {
      await first.stop();
    }
  });

  test('an outage of Redis and its end are shown in words', async () => {
    const page = await browser.open();
    await page.goto(viewAt(second));
    await page.getByText('Up', { exact: true }).waitFor();
    await redis.stop();
    const sentence = page.getByRole('heading', { name: 'The store has not answered since' });
    await sentence.waitFor();
    await page.getByText('Down', { exact: true }).waitFor();
    await isLive(page); // the service itself answers
    await until('failed calls are stated', async () => {
      await send(second, 'demo', [['user', 'alice']]);
      return page.getByRole('heading', { name: /got no decision, .*: Redis does not answer\./ }).isVisible();
    });
    await redis.restart();
    await page.getByText('The store answers again').waitFor();
    await sentence.waitFor({ state: 'detached' });
    await page.getByText('Up', { exact: true }).waitFor();
  });

  test('a killed worker is replaced while the page is open, and the restart is counted', async () => {
    const workers = await startWeir({ ...env, WORKERS: '2', ADMIN_TOKEN: TOKEN }, { args: ['--rules', rules] });
    try {
      const page = await browser.open();
      await signIn(page, workers);
      await page.goto(viewAt(workers, 'health'));
      await page.getByText('2 of 2').waitFor();
      const name =
        (await page
          .getByText(/worker \d+ \(process \d+\)/)
          .first()
          .textContent()) ?? '';
      process.kill(Number(/process (\d+)/.exec(name)?.[1]), 'SIGKILL');
      await page.getByText(name, { exact: true }).waitFor({ state: 'detached' });
      await page.getByText(/, 1 restarted;/).waitFor();
      await page.getByText('2 of 2').waitFor();
      for (let hit = 0; hit < 7; hit++) await send(workers, 'demo', [['user', 'trent']]);
      await page.goto(viewAt(workers));
      await page.getByRole('row', { name: 'user=trent' }).waitFor(); // counted by both workers
    } finally {
      await workers.stop();
    }
  });
});

test('a lost service is shown as disconnected, and the page continues when it is back', async () => {
  const ports = { DEBUG_PORT: String(await freePort()), USE_STATSD: 'false' };
  const first = await startWeir(ports, { args: ['--rules', rules] });
  const page = await browser.open();
  await page.goto(viewAt(first));
  await isLive(page);
  await first.stop();
  await page.getByText('Disconnected', { exact: true }).waitFor();
  await page.getByText(/The data shown is .* old/).waitFor();
  const second = await startWeir(ports, { args: ['--rules', rules] });
  try {
    await isLive(page);
    await page.getByText('Disconnected', { exact: true }).waitFor({ state: 'detached' });
  } finally {
    await second.stop();
  }
});
