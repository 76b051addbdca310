import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { openLocally, send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { eventually } from '../../../helpers/until.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

/** The limit of the demo rules, in a window that does not end during a test. */
const LIMIT = 'rate_limit: { unit: year, requests_per_unit: 5 }';
const RULES = {
  demo: `{ key: user, ${LIMIT} }, { key: request_id, not_counted: trace, rate_limit: { unlimited: true } }`,
  shop: `{ key: user, ${LIMIT} }, { key: cart, ${LIMIT} }`,
};

let browser: TestBrowser;
/** Has the demo rules, and no token. */
let open: Weir;
/** Has lasting limits, and a token. */
let guarded: Weir;
beforeAll(async () => {
  const rules = mkdtempSync(join(tmpdir(), 'flow-'));
  for (const [domain, descriptors] of Object.entries(RULES))
    writeFileSync(join(rules, `${domain}.yaml`), `domain: ${domain}\ndescriptors: [${descriptors}]\n`);
  browser = await startBrowser();
  open = await startWeir({ USE_STATSD: 'false' });
  const env = { ADMIN_TOKEN: TOKEN, EXPLAIN_SAMPLE: '100', USE_STATSD: 'false' };
  guarded = await startWeir(env, { args: ['--rules', rules] });
});
afterAll(async () => {
  await browser.close();
  await open.stop();
  await guarded.stop();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

test('a new user opens the URL in the banner, sends three requests, and sees their results', async () => {
  const [address = ''] = /http:\/\/localhost:\d+\/console\/\S*/.exec(open.output()) ?? [];
  const page = await browser.open();
  await page.goto(address);
  await page.getByText('Try the demo rules').waitFor();
  expect(await page.getByText('Waiting').count()).toBe(3);
  expect(await page.locator('code').allTextContents()).toEqual([
    expect.stringMatching(/^npx weir ask demo user=alice/),
    expect.stringMatching(/^npx weir ask demo api_key=k2 --hits 11/),
    expect.stringMatching(/^npx weir ask demo usr=alice/),
  ]);
  expect(await send(open, 'demo', [['user', 'alice']])).toBe(200);
  expect(await send(open, 'demo', [['api_key', 'k2']], 11)).toBe(429);
  expect(await send(open, 'demo', [['usr', 'alice']])).toBe(200);
  await expectCount(() => page.getByText('Seen').count(), 3);
  const row = page.getByRole('row', { name: 'api_key=k2' });
  await row.getByRole('link', { name: 'demo.api_key' }).waitFor();
  await page.getByRole('link', { name: 'Unmatched' }).click();
  await page.getByRole('cell', { name: 'usr=alice' }).waitFor();
});

test('without a token, a browser on this machine can read everything, and shows why it may not change anything', async () => {
  const page = await browser.open();
  await openLocally(page, open);
  await page.goto(viewAt(open, `client?${new URLSearchParams({ domain: 'demo', pairs: '[["user","oscar"]]' })}`));
  await page.getByText('Changes are off. Set ADMIN_TOKEN and sign in to make them.').waitFor();
  expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(true);
  await page.goto(viewAt(open, 'sites'));
  await page.getByText('This is the only site.').waitFor();
  expect(await page.getByRole('navigation').getByRole('link', { name: 'Sites' }).count()).toBe(0);
});

test('a typo, and a path without a rule, are listed once, however many users and numbers they have', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  try {
    for (const user of ['a', 'b', 'c']) await send(weir, 'demo', [['usr', user]]);
    await send(weir, 'demo', [['user', 'a']]);
    const page = await browser.open();
    await page.goto(viewAt(weir));
    await page.getByText('75 % of requests match no rule, 3 in the last minute.').waitFor();
    await page.getByRole('link', { name: 'Which ones, and why' }).click();
    await page.getByText('and 2 more with the same keys').waitFor();
    expect(await page.getByRole('row').count()).toBe(2); // with the head
    for (const item of [1, 2, 3, 40]) await send(weir, 'demo', [['path', `/items/${item}`]]);
    await page.getByText('and 3 more with the same keys').waitFor();
    expect(await page.getByRole('row').count()).toBe(3);
  } finally {
    await weir.stop();
  }
});

test('a refused key is found, explained and reset, and then passes', async () => {
  const page = await browser.open();
  await page.goto(viewAt(guarded));
  await signIn(page, guarded);
  for (let hit = 0; hit < 7; hit++) await send(guarded, 'demo', [['user', 'mallory']]);
  expect(await send(guarded, 'demo', [['user', 'mallory']])).toBe(429);

  const row = page.getByRole('row', { name: 'user=mallory' });
  await row.getByRole('link', { name: 'user=mallory', exact: true }).click();
  await page.getByText('A limit is exceeded').waitFor();
  await page.getByText('8 + 1 = 9 > 5').waitFor();
  await page.getByText('Over the limit', { exact: true }).waitFor();
  await expectCount(() => page.getByText('7 + 1 = 8 > 5').count(), 1); // in the list of recent refusals
  await page.getByRole('button', { name: 'Reset…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Reset' });
  await dialog.getByText('This resets 1 counter').waitFor();
  await dialog.getByText('demo.user, 5 per year: 8 used, then 0').waitFor();
  await dialog.getByLabel('Reason').fill('support case 7');
  await dialog.getByRole('button', { name: 'Reset' }).click();
  await page.getByText('The counters are reset.').waitFor();
  await page.getByText('Has room', { exact: true }).waitFor();
  expect(await send(guarded, 'demo', [['user', 'mallory']])).toBe(200);

  await page.getByRole('link', { name: 'Audit' }).click();
  await page.getByRole('cell', { name: 'support case 7' }).waitFor();
  await page.getByRole('cell', { name: '8 used → 0 used' }).waitFor();
});

test('hits are granted, and a block is set and removed, each with a reason', async () => {
  const page = await browser.open();
  await signIn(page, guarded);
  for (let hit = 0; hit < 4; hit++) await send(guarded, 'demo', [['user', 'nina']]);
  let arrive = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  await page.route('**/api/v1/rules', (asked) => arrived.then(() => asked.continue()));
  await page.goto(viewAt(guarded, 'client'));
  await page.reload();
  await page.getByText('Another client, by its descriptor').click();
  await page.getByLabel('Key').fill('user'); // stays when the rules arrive, with the domain
  await page.getByLabel('Value').fill('nina');
  arrive();
  await eventually(async () => (await page.getByLabel('Domain').inputValue()) === 'demo');
  await page.getByRole('button', { name: 'Show' }).click();
  const change = async (button: string, confirm: string): Promise<void> => {
    await page.getByRole('button', { name: button }).click();
    await page.getByLabel('Reason').fill('test');
    await page.getByRole('dialog').getByRole('button', { name: confirm, exact: true }).click();
    await page.locator('dialog').waitFor({ state: 'detached' });
  };
  await change('Grant hits…', 'Grant hits');
  await page.getByText('1 hit was refunded').waitFor();
  await change('Block…', 'Block');
  await page.getByText('Blocked', { exact: true }).waitFor();
  await expectCount(() => send(guarded, 'demo', [['user', 'nina']]), 429);
  await change('Remove override…', 'Remove override');
  await expectCount(() => send(guarded, 'demo', [['user', 'nina']], 0), 200);
});

test('the search box finds clients, rules, counters and refused requests', async () => {
  for (let hit = 0; hit < 7; hit++) await send(guarded, 'demo', [['user', 'pavel']]);
  const descriptors = [
    { entries: [{ key: 'user', value: 'pavel' }] },
    { entries: [{ key: 'request_id', value: 'req-9' }] },
  ];
  const body = JSON.stringify({ domain: 'demo', descriptors });
  await fetch(`http://127.0.0.1:${guarded.httpPort}/json`, { method: 'POST', body });
  const page = await browser.open();
  await signIn(page, guarded);
  const search = async (text: string): Promise<void> => {
    await page.getByRole('searchbox', { name: /^Find/ }).fill(text);
    await page.getByRole('searchbox', { name: /^Find/ }).press('Enter');
  };
  const isClient = (name: string) => page.getByRole('heading', { name, exact: true }).waitFor();
  await search('demo user=pavel');
  await isClient('user=pavel');
  await page.getByText('8 + 1 = 9 > 5').waitFor();
  await search('cart=7');
  await isClient('cart=7');
  await search('fixed_window.2|31536000000|4:demo|4:user|5:pavel');
  await isClient('user=pavel');
  await search('shop.cart');
  await isClient('shop.cart');
  await search('user=pavel'); // of two domains
  await page.getByRole('heading', { name: 'Search for user=pavel' }).waitFor();
  await page.getByText('domain shop').waitFor();
  await search('avel');
  await page.getByRole('listitem').filter({ hasText: 'demo.user' }).getByRole('link', { name: 'user=pavel' }).waitFor();
  await page.goto(viewAt(guarded, 'search?q=cart%3D7')); // as if searched before the rules were loaded
  await page.reload();
  await isClient('cart=7');
  await search('req-9');
  await page.getByRole('cell', { name: 'the request id' }).waitFor();
});

test("callers' values are hidden until a token is entered, and a wrong token is refused", async () => {
  await send(guarded, 'demo', [['user', 'peggy']], 6);
  await send(guarded, 'demo', [['usr', 'peggy']]);
  const page = await browser.open();
  await page.goto(viewAt(guarded));
  await page.getByText('The list of clients shows values that callers sent.').waitFor();
  await page.getByRole('row', { name: 'demo.user' }).waitFor();
  await page.goto(viewAt(guarded, 'unmatched'));
  await page.getByText('(hidden)').waitFor();
  expect(await page.content()).not.toContain('peggy');
  await page.goto(viewAt(guarded, 'sign-in'));
  await page.getByLabel('Token').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('the token is not one of ADMIN_TOKEN').waitFor();
  await signIn(page, guarded);
  await send(guarded, 'demo', [['user', 'peggy']], 6); // the list is that of the last minute
  await page.getByRole('row', { name: 'user=peggy' }).waitFor();
  const cookies = await page.context().cookies();
  expect(cookies).toEqual([expect.objectContaining({ httpOnly: true, sameSite: 'Strict' })]);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('The list of clients shows values that callers sent.').waitFor();
});

/** Waits until a number is the expected one: the page follows the service by up to a second. */
async function expectCount(read: () => Promise<number>, expected: number): Promise<void> {
  let found: number;
  await eventually(
    async () => {
      found = await read();
      return found === expected;
    },
    () => `${found} instead of ${expected}`,
  );
}
