import '../../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { eventually } from '../../../helpers/until.ts';
import { startWeir } from '../../../helpers/weir.ts';

/** The limit of the demo rules, in a window that does not end during a test. */
const RULES = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 5 } }]\n';

let folder: string;
let lasting: { readonly args: readonly string[] };
let browser: TestBrowser;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'flow-'));
  lasting = { args: ['--rules', join(folder, 'rules.yaml')] };
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser.close();
});
afterEach(() => expect(browser.problems.splice(0)).toEqual([]));

test('a new user opens the URL in the banner, sends three requests, and sees their results', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  try {
    const [address = ''] = /http:\/\/localhost:\d+\/console\//.exec(weir.output()) ?? [];
    const page = await browser.open();
    await page.goto(address);
    await page.getByText('Try the demo rules').waitFor();
    expect(await page.getByText('Waiting').count()).toBe(3);
    expect(await page.locator('code').allTextContents()).toEqual([
      expect.stringMatching(/^npx weir ask demo user=alice/),
      expect.stringMatching(/^npx weir ask demo api_key=k2 --hits 11/),
      expect.stringMatching(/^npx weir ask demo usr=alice/),
    ]);
    expect(await send(weir, 'demo', [['user', 'alice']])).toBe(200);
    expect(await send(weir, 'demo', [['api_key', 'k2']], 11)).toBe(429);
    expect(await send(weir, 'demo', [['usr', 'alice']])).toBe(200);
    await expectCount(() => page.getByText('Seen').count(), 3);
    const row = page.getByRole('row', { name: 'api_key=k2' });
    await row.getByRole('link', { name: 'demo.api_key' }).waitFor();
    await page.getByRole('link', { name: 'Unmatched' }).click();
    await page.getByRole('cell', { name: 'usr=alice' }).waitFor();
  } finally {
    await weir.stop();
  }
});

test('a refused key is found, explained and reset, and then passes', async () => {
  const weir = await startWeir({ ADMIN_TOKEN: TOKEN, EXPLAIN_SAMPLE: '100', USE_STATSD: 'false' }, lasting);
  try {
    const page = await browser.open();
    await page.goto(viewAt(weir));
    await signIn(page, weir);
    for (let hit = 0; hit < 7; hit++) await send(weir, 'demo', [['user', 'mallory']]);
    expect(await send(weir, 'demo', [['user', 'mallory']])).toBe(429);

    await page.getByRole('link', { name: 'Explain user=mallory' }).click();
    await page.getByText('A limit is exceeded').waitFor();
    await page.getByText('8 + 1 = 9 > 5').waitFor();

    await page.getByRole('link', { name: 'Counters and changes' }).click();
    await page.getByText('Spent', { exact: true }).waitFor();
    await expectCount(() => page.getByText('7 + 1 = 8 > 5').count(), 1); // in the list of recent refusals
    await page.getByRole('button', { name: 'Reset…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Reset' });
    await dialog.getByText('This resets 1 counter').waitFor();
    await dialog.getByText('demo.user, 5 per year: 8 used, then 0').waitFor();
    await dialog.getByLabel('Reason').fill('support case 7');
    await dialog.getByRole('button', { name: 'Reset' }).click();
    await page.getByText('The counters are reset.').waitFor();
    await page.getByText('Has room').waitFor();
    expect(await send(weir, 'demo', [['user', 'mallory']])).toBe(200);

    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('cell', { name: 'support case 7' }).waitFor();
    await page.getByRole('cell', { name: '8 used → 0 used' }).waitFor();
  } finally {
    await weir.stop();
  }
});

test('hits are granted, and a block is set and removed, each with a reason', async () => {
  const weir = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' }, lasting);
  try {
    const page = await browser.open();
    await signIn(page, weir);
    for (let hit = 0; hit < 4; hit++) await send(weir, 'demo', [['user', 'nina']]);
    await page.goto(viewAt(weir, 'key'));
    await page.getByText('No override is set.').waitFor();
    await page.getByLabel('Domain').fill('demo');
    await page.getByLabel('Key').fill('user');
    await page.getByLabel('Value').fill('nina');
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
    await page.getByText('Override by').waitFor();
    await expectCount(() => send(weir, 'demo', [['user', 'nina']]), 429);
    await change('Remove override…', 'Remove override');
    await expectCount(() => send(weir, 'demo', [['user', 'nina']], 0), 200);
  } finally {
    await weir.stop();
  }
});

test('without a token, a browser on this machine can read everything, and shows why it may not change anything', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  try {
    const page = await browser.open();
    await page.goto(viewAt(weir, `key?${new URLSearchParams({ domain: 'demo', pairs: '[["user","oscar"]]' })}`));
    await page.getByText('Changes are off. Set ADMIN_TOKEN and sign in to make them.').waitFor();
    expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(true);
  } finally {
    await weir.stop();
  }
});

test("callers' values are hidden until a token is entered, and a wrong token is refused", async () => {
  const weir = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' });
  try {
    await send(weir, 'demo', [['user', 'peggy']], 6);
    await send(weir, 'demo', [['usr', 'peggy']]);
    const page = await browser.open();
    await page.goto(viewAt(weir));
    await page.getByText('This list shows values that callers sent.').waitFor();
    await page.goto(viewAt(weir, 'unmatched'));
    await page.getByText('(hidden)').waitFor();
    expect(await page.content()).not.toContain('peggy');
    await page.goto(viewAt(weir, 'sign-in'));
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('the token is not one of ADMIN_TOKEN').waitFor();
    await signIn(page, weir);
    await send(weir, 'demo', [['user', 'peggy']], 6); // the list is that of the last minute
    await page.getByRole('row', { name: 'user=peggy' }).waitFor();
    const cookies = await page.context().cookies();
    expect(cookies).toEqual([expect.objectContaining({ httpOnly: true, sameSite: 'Strict' })]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('This list shows values that callers sent.').waitFor();
  } finally {
    await weir.stop();
  }
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
