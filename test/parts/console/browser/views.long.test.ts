import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { forKey, send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: minute, requests_per_unit: 5}}
  - key: path
    value: /login*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 20, algorithm: token_bucket, burst: 30}
    descriptors:
      - {key: remote_address, rate_limits: [{unit: hour, requests_per_unit: 9, algorithm: sliding_window_log}, {unit: day, requests_per_unit: 90, algorithm: sliding_window_buckets, buckets: 24, shadow_mode: true}]}
  - {key: api_key, rate_limit: {unit: second, requests_per_unit: 10, algorithm: sliding_window_counter}}
  - {key: queue, rate_limit: {unit: minute, requests_per_unit: 10, algorithm: leaky_bucket}}
  - {key: plan, value: gold, rate_limit: {unlimited: true}}
  - {key: request_id, not_counted: trace, rate_limit: {unlimited: true}}
  - {key: tenant, descriptors: [{key: job, not_counted: hold, rate_limit: {name: reports, algorithm: in_flight, requests_per_unit: 4, soft: 1, ttl: 1h}}]}
`;

/** Values that break pages which treat them as markup, or that change the display of text around them. */
const HOSTILE = {
  markup: '<img src=x onerror=alert(1)><script>alert(2)</script>',
  direction: '\u202Egnp.exe\u2066abc',
  long: 'x'.repeat(16_000),
  link: 'javascript:alert(3)',
} as const;

/** UPDATE_SCREENSHOTS=1 saves pictures in the docs; otherwise they go to a folder that is removed. */
const isUpdate = process.env.UPDATE_SCREENSHOTS === '1';

let folder: string;
let weir: Weir;
let browser: TestBrowser;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await startWeir(
    { ADMIN_TOKEN: TOKEN, EXPLAIN_SAMPLE: '100', USE_STATSD: 'false' },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  for (let round = 0; round < 12; round++) {
    await send(weir, 'demo', [['user', 'alice']]);
    await send(weir, 'demo', [['user', round % 2 === 0 ? 'bob' : 'carol']]);
    await send(weir, 'demo', [['api_key', 'k1']], 2);
    await send(weir, 'demo', [
      ['path', '/login?next=/home'],
      ['remote_address', '10.0.0.7'],
    ]);
    await send(weir, 'demo', [['usr', 'alice']]);
    await sendRecent();
  }
  for (const job of ['a', 'b', 'c'])
    await send(weir, 'demo', [
      ['tenant', 'acme'],
      ['job', job],
    ]);
  const descriptors = [[['user', 'alice']], [['request_id', 'req-7']]].map((pairs) => ({
    entries: pairs.map(([key, value]) => ({ key, value })),
  }));
  const body = JSON.stringify({ domain: 'demo', descriptors });
  await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body });
});
afterAll(async () => {
  await weir.stop();
  await browser.close();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

/** Views show unmatched descriptors and held slots of the last minute. */
async function sendRecent(): Promise<void> {
  await send(weir, 'shop', [
    ['tenant', 'acme'],
    ['plan', 'gold'],
  ]);
  await send(weir, 'demo', [
    ['tenant', 'acme'],
    ['job', 'a'], // holds its slot already
  ]);
}

const alice = [['user', 'alice']] as const;
const address = [
  ['path', '/login?next=/home'],
  ['remote_address', '10.0.0.7'],
] as const;

/** Each view, with a text that it shows once it is complete. */
const views: readonly (readonly [name: string, view: string, text: string])[] = [
  ['overview', '', 'Refused most, last minute'],
  ['rules', 'rules', 'demo.'],
  ['rule', 'rule?path=demo.user', 'How a fixed window decides'],
  ['rule with slots', 'rule?path=demo.tenant.job', '3 of 5'],
  ['unmatched', 'unmatched', 'no rules have the domain'],
  ['client', forKey('client', 'demo', alice), 'Last refusals'],
  ['client with several limits', forKey('client', 'demo', address), 'sliding window log'],
  ['client without a rule', forKey('client', 'demo', [['usr', 'alice']]), 'no rule matches'],
  ['clients', 'client', 'No override is set'],
  ['search', 'search?q=user', 'demo.user'],
  ['search for a request id', 'search?q=req-7', 'the request id'],
  ['candidate', 'candidate', 'no error'],
  ['health', 'health', 'Connections of callers'],
  ['audit', 'audit', 'Changes that operators made'],
  ['sign-in', 'sign-in', 'It is sent once'],
];

test.each([
  ['light', 1280],
  ['dark', 360],
] as const)('every view is accessible and fits its window, %s, %p px', async (colorScheme, width) => {
  const page = await browser.open({ colorScheme, viewport: { width, height: 800 }, reducedMotion: 'reduce' });
  await signIn(page, weir);
  for (const [name, view, text] of views) {
    await sendRecent();
    await page.goto(viewAt(weir, view));
    await page.locator('main').filter({ hasText: text }).or(page.getByAltText(text)).first().waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    expect({ name, violations: await accessibilityViolations(page) }).toEqual({ name, violations: [] });
    expect({ name, overflow: await overflowOf(page) }).toEqual({ name, overflow: 0 });
  }
});

test('a dialog is accessible, and fits a phone', async () => {
  const page = await browser.open({ viewport: { width: 360, height: 800 } });
  await signIn(page, weir);
  await page.goto(viewAt(weir, forKey('client', 'demo', alice)));
  for (const button of ['Let in for…', 'Reset…', 'Grant hits…', 'Set a limit…', 'Block…']) {
    await page.getByRole('button', { name: button }).click();
    await page.getByRole('dialog').waitFor();
    expect({ button, violations: await accessibilityViolations(page) }).toEqual({ button, violations: [] });
    expect(await overflowOf(page)).toBe(0);
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
  }
});

/** Sends each hostile value where it is refused, and where it matches no rule: as a value, a key and a domain. */
async function sendHostile(): Promise<void> {
  for (const value of Object.values(HOSTILE)) {
    await send(weir, 'demo', [['user', value]], 6);
    await send(weir, 'demo', [['user', value]]);
    await send(weir, 'demo', [[value.slice(0, 200), value]]);
    await send(weir, value.slice(0, 200), [['a', value]]);
  }
}

test('hostile values are shown as text in every view', async () => {
  const page = await browser.open({ viewport: { width: 360, height: 800 } });
  await signIn(page, weir);
  const isClean = async (where: string): Promise<void> => {
    expect({ where, injected: await page.locator('main img[src="x"], main script').count() }).toEqual({
      where,
      injected: 0,
    });
    expect({ where, overflow: await overflowOf(page) }).toEqual({ where, overflow: 0 });
    const text = await page.locator('body').innerText();
    expect({ where, hidden: /[\u202a-\u202e\u2066-\u2069]/.test(text) }).toEqual({ where, hidden: false });
  };
  await sendHostile();
  await page.goto(viewAt(weir));
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await page.getByText('\\u202egnp.exe').first().waitFor();
  await isClean('overview');
  await sendHostile();
  await page.goto(viewAt(weir, 'unmatched'));
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await isClean('unmatched');
  await sendHostile();
  await page.goto(viewAt(weir, 'rule?path=demo.user'));
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await isClean('rule');
  for (const [name, value] of Object.entries(HOSTILE)) {
    await page.goto(viewAt(weir, forKey('client', 'demo', [['user', value]])));
    await page.getByText('a limit applies').waitFor();
    await isClean(`client ${name}`);
    await page.goto(viewAt(weir, `search?${new URLSearchParams({ q: value })}`));
    await page.getByRole('heading', { name: 'Rules' }).waitFor();
    await isClean(`search ${name}`);
  }
  await page.goto(viewAt(weir, forKey('client', 'demo', [['user', HOSTILE.markup]])));
  await page.getByRole('button', { name: 'Reset…' }).click();
  await page.getByLabel('Reason').fill(HOSTILE.markup);
  await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
  await page.goto(viewAt(weir, 'audit'));
  await page.getByText('<script>alert(2)</script>').first().waitFor();
  await isClean('audit');
  await page.goto(viewAt(weir, 'rule?path=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E'));
  await page.getByText('This rule is not among those in force.').waitFor();
  await isClean('unknown rule');
});

test('the copied rule makes an unmatched descriptor match', async () => {
  const page = await browser.open({ permissions: ['clipboard-read', 'clipboard-write'] });
  await signIn(page, weir);
  await page.goto(viewAt(weir, 'unmatched'));
  await sendRecent();
  const row = page.getByRole('row', { name: 'tenant=acme' });
  await row.getByRole('button', { name: 'Copy rule' }).click();
  await row.getByRole('button', { name: 'Copied' }).waitFor();
  const copied = String(await page.evaluate('navigator.clipboard.readText()'));
  const rules = join(folder, 'copied.yaml');
  writeFileSync(rules, copied);
  const other = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  try {
    expect(
      await send(
        other,
        'shop',
        [
          ['tenant', 'acme'],
          ['plan', 'gold'],
        ],
        101,
      ),
    ).toBe(429);
  } finally {
    await other.stop();
  }
});

test('everything can be reached and used by keyboard alone', async () => {
  const page = await browser.open();
  await signIn(page, weir);
  await page.goto(viewAt(weir));
  await page.getByText('Live', { exact: true }).waitFor();
  const focused = async (): Promise<string> => String(await page.evaluate('document.activeElement.textContent.trim()'));
  const labelled = async (): Promise<string> =>
    String(await page.evaluate('document.activeElement.labels?.[0]?.textContent.trim()'));
  const tabTo = async (text: string, read = focused): Promise<void> => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press('Tab');
      if ((await read()) === text) return;
    }
    throw new Error(`Tab does not reach '${text}'`);
  };
  await tabTo('Skip to content');
  for (const view of ['Weir', 'Overview', 'Rules', 'Clients']) await tabTo(view);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Clients', exact: true }).waitFor();
  await page.waitForFunction('document.activeElement.id === "main"'); // set by an effect after the heading is rendered
  await tabTo('Another client, by its descriptor'); // below the list of clients
  await page.keyboard.press('Enter');
  for (const [field, text] of [
    ['Domain', 'demo'],
    ['Key', 'user'],
    ['Value', 'alice'],
  ] as const) {
    await tabTo(field, labelled);
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type(text);
  }
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'user=alice' }).waitFor();
  await page.getByRole('button', { name: 'Reset…' }).click({ trial: true }); // it is enabled once there are counters
  await tabTo('Reset…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect(await focused()).toBe('Reset…'); // the previous focus
});

test('a view keeps its state in the URL', async () => {
  const page = await browser.open();
  await page.goto(viewAt(weir, 'rules'));
  await page.getByLabel('Search').fill('token_bucket');
  await page.getByText('1 of 8 rules').waitFor();
  await page.getByLabel('Refused most').check();
  await page.reload();
  await page.getByText('1 of 8 rules').waitFor();
  expect(await page.getByLabel('Refused most').isChecked()).toBe(true);
  await page.getByLabel('Search').fill('nothing like this');
  await page.getByText('No rule has').waitFor();
});

test("times are shown in the user's time zone", async () => {
  const page = await browser.open({ timezoneId: 'Asia/Tokyo' });
  await page.goto(viewAt(weir, 'health'));
  const time = page.locator('time').first();
  const shown = (await time.textContent())?.slice(0, 5);
  const tokyo = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: 'Asia/Tokyo' });
  expect(shown).toBe(tokyo.format(new Date(String(await time.getAttribute('datetime')))));
});

test('pictures of the console for the docs can be taken', async () => {
  const into = isUpdate ? 'docs/console' : join(folder, 'img');
  mkdirSync(into, { recursive: true });
  const page = await browser.open({ colorScheme: 'light', viewport: { width: 1280, height: 800 } });
  await signIn(page, weir);
  await loadCandidate();
  const steady = setInterval(() => {
    void Promise.all([
      send(weir, 'demo', [['user', 'alice']]),
      send(weir, 'demo', [['api_key', `k${Math.floor(Math.random() * 9)}`]], 3),
    ]).catch(() => []); // the service may stop first
  }, 100);
  try {
    for (const [name, view] of [
      ['rules', 'rules?order=file'],
      ['client', forKey('client', 'demo', alice)],
      ['candidate', 'candidate'],
      ['first-screen', ''], // last, so that its minute has no requests of earlier tests
    ] as const) {
      await page.goto(viewAt(weir, view));
      await page.getByText('Live', { exact: true }).waitFor();
      const introduction = page.getByRole('button', { name: 'Close', exact: true });
      if (name === 'first-screen' && (await introduction.isVisible())) await introduction.click();
      await page.waitForTimeout(isUpdate ? 20_000 : 500);
      if (isUpdate) await page.getByText('Late', { exact: true }).waitFor({ state: 'detached' }); // other work on the machine
      const png = await page.screenshot({ path: join(into, `${name}.png`) });
      expect(png.length).toBeLessThan(150_000);
    }
  } finally {
    clearInterval(steady);
  }
});

/** Loads a candidate with a lower limit for each API key. */
async function loadCandidate(): Promise<void> {
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1/candidate?reason=spread%20the%20load`;
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
    body: RULES.replace('requests_per_unit: 10,', 'requests_per_unit: 4,'),
  });
  expect(await answer.json()).toMatchObject({ state: 'on' });
}
