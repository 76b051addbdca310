import '../../../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { runCommand } from '../../../helpers/command.ts';
import { openLocally, send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

const docs = readFileSync('docs/change-a-limit.md', 'utf8');
/** The live rules in the walkthrough of the docs. */
const [, RULES = ''] = /## A walk.*?```yaml\n(.*?)```/s.exec(docs) ?? [];

let folder: string;
let browser: TestBrowser;
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'candidate-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  browser = await startBrowser();
  weir = await started();
});
afterAll(async () => {
  await browser.close();
  await weir.stop();
});
afterEach(async () => expect(await browser.endTest()).toEqual([]));

const started = (env: Record<string, string> = {}): Promise<Weir> =>
  startWeir(
    { ADMIN_TOKEN: TOKEN, USE_STATSD: 'false', AUDIT_LOG: join(folder, 'audit.log'), ...env },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );

const editorOf = (view: Page): Locator => view.getByRole('textbox', { name: 'Rules, YAML' });

async function openView(weir: Weir, width = 1280): Promise<Page> {
  const view = await browser.open({ viewport: { width, height: 800 } });
  await signIn(view, weir);
  await view.goto(viewAt(weir, 'candidate'));
  await view.getByText('1 rule of demo, no error').waitFor();
  return view;
}

/** Loads the rules with another limit as the candidate. */
async function load(view: Page, limit: number): Promise<void> {
  const reason = `try ${limit} a day`;
  await editorOf(view).fill(RULES.replace('50', String(limit)));
  await view.getByRole('button', { name: 'Load as candidate…' }).click();
  const dialog = view.getByRole('dialog', { name: 'Load the candidate' });
  await dialog.getByLabel('Reason').fill(reason);
  await dialog.getByRole('button', { name: 'Load the candidate' }).click();
  await view.getByText('The candidate is loaded.').waitFor();
  await view.getByText(reason, { exact: true }).waitFor();
  await view.getByText('No request has been tried yet.').waitFor();
  await view.locator('dl > div', { hasText: 'Figures since' }).locator('time').waitFor();
}

/** Waits for a figure of the whole service. */
const figure = (view: Page, label: string, value: string): Promise<void> =>
  view
    .getByLabel('Figures')
    .locator('dl > div', { has: view.getByText(label, { exact: true }) })
    .getByText(value, { exact: true })
    .waitFor();

const user = (weir: Weir, name: string): Promise<number> => send(weir, 'demo', [['user', name]]);

async function users(weir: Weir, requests: Readonly<Record<string, number>>): Promise<number[]> {
  const answers: number[] = [];
  for (const [name, times] of Object.entries(requests))
    for (let sent = 0; sent < times; sent++) answers.push(await user(weir, name));
  return answers;
}

test("an operator tries a lower limit as a candidate, sees which clients it would refuse, and applies the advisor's figure", async () => {
  const view = await openView(weir);
  expect(await editorOf(view).inputValue()).toBe(RULES);
  await load(view, 10);
  expect(new Set(await users(weir, { alice: 45, bob: 12, carol: 5 }))).toEqual(new Set([200]));
  await figure(view, 'Requests', '62');
  await figure(view, 'Newly refused', '37');
  const row = view.getByRole('row').filter({ hasText: 'demo.user' });
  await row.getByText('2 keys would be refused').waitFor();
  expect(await row.getByRole('listitem').allInnerTexts()).toEqual([
    expect.stringMatching(/^35\s+user=alice$/),
    expect.stringMatching(/^2\s+user=bob$/),
  ]);
  expect(await accessibilityViolations(view)).toEqual([]);

  const advised = await advisedOfWeek();
  expect(advised).toBe(18);
  await load(view, advised);
  await users(weir, { alice: 1, bob: 1 });
  await figure(view, 'Requests', '2');
  await row.getByText('1 key would be refused').waitFor();
  expect(await row.getByRole('listitem').allInnerTexts()).toEqual([expect.stringMatching(/^1\s+user=alice$/)]);

  await view.getByText('Replace the rules at their source').waitFor();
  const downloaded = view.waitForEvent('download');
  await view.getByRole('button', { name: 'Download', exact: true }).click();
  const file = await downloaded;
  expect(file.suggestedFilename()).toBe('demo.yaml');
  await file.saveAs(join(folder, 'rules.yaml'));
  expect(readFileSync(join(folder, 'rules.yaml'), 'utf8')).toBe(RULES.replace('50', String(advised)));
  await weir.waitFor(async () => (await user(weir, 'alice')) === 429);
  expect(await user(weir, 'bob')).toBe(200);

  await view.getByRole('button', { name: 'Clear…' }).click();
  const dialog = view.getByRole('dialog', { name: 'Clear the candidate' });
  await dialog.getByLabel('Reason').fill('in force');
  await dialog.getByRole('button', { name: 'Clear the candidate' }).click();
  await view.getByText('No candidate is tried.').waitFor();
  await view.getByRole('link', { name: 'Audit' }).click();
  for (const reason of ['try 10 a day', `try ${advised} a day`, 'in force'])
    await view.getByRole('cell', { name: reason }).waitFor();
});

test("a candidate is shown on a phone, with callers' values as text", async () => {
  const view = await openView(weir, 360);
  await load(view, 0);
  const hostile = ['<img src=x onerror=alert(1)>', '\u202Egnp.exe\u2066abc', 'x'.repeat(16_000), 'javascript:alert(3)'];
  for (const value of hostile) await user(weir, value);
  await view.getByText('4 keys would be refused').waitFor();
  await view.getByText('<img src=x onerror=alert(1)>').waitFor();
  await view.getByText('\\u202egnp.exe').waitFor();
  expect(await view.locator('main img, main script, main a[href^="javascript:"]').count()).toBe(0);
  expect(await view.locator('body').innerText()).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
  expect(await overflowOf(view)).toBe(0);
  expect(await accessibilityViolations(view)).toEqual([]);
});

test('keys are shown as hashes if values are hashed', async () => {
  const weir = await started({ HASH_KEYS: 'true' });
  try {
    const view = await openView(weir);
    await load(view, 0);
    await user(weir, 'mallory');
    const row = view.getByRole('row').filter({ hasText: '1 key would be refused' });
    await row.waitFor();
    expect(await row.getByRole('listitem').innerText()).toMatch(/^1\s+\S{8,}$/);
    expect(await view.content()).not.toContain('mallory');
  } finally {
    await weir.stop();
  }
});

test('without a token, a text is checked but not loaded, and an invalid candidate from a file is shown with its line', async () => {
  const candidate = join(folder, 'proposed.yaml');
  writeFileSync(candidate, RULES.replace('day', 'fortnight'));
  const weir = await started({ ADMIN_TOKEN: '', CANDIDATE_RULES_PATH: candidate });
  try {
    const view = await browser.open();
    await openLocally(view, weir);
    await view.goto(viewAt(weir, 'candidate'));
    await view.getByText('Invalid: not tried').waitFor();
    await view.getByText("invalid rate limit unit 'fortnight'").waitFor();
    await view.getByText('proposed.yaml:4').waitFor();
    await view.getByText('1 rule of demo, no error').waitFor();
    await view.getByText('Changes are off. Set ADMIN_TOKEN and sign in to make them.').waitFor();
    for (const name of ['Load as candidate…', 'Clear…'])
      expect(await view.getByRole('button', { name }).isDisabled()).toBe(true);
    expect(await accessibilityViolations(view)).toEqual([]);
  } finally {
    await weir.stop();
  }
});

test('nothing is shown until a token is entered', async () => {
  const view = await browser.open();
  await view.goto(viewAt(weir, 'candidate'));
  await view.getByText('Candidate shows values that callers sent.').waitFor();
  expect(await editorOf(view).count()).toBe(0);
});

const DAY_MS = 86_400_000;

/** A recorded week: 300 users with 3 to 12 requests per day, and one with 45. */
function weekOfRequests(): string {
  const sent: (readonly [atMs: number, name: string])[] = [];
  for (let day = 0; day < 7; day++)
    for (let at = 0; at <= 300; at++) {
      const [name, times] = at === 300 ? ['alice', 45] : [`user-${at}`, 3 + ((at * 7 + day * 3) % 10)];
      for (let hit = 0; hit < times; hit++) sent.push([(day + (hit + 0.5) / times) * DAY_MS, name]);
    }
  const startMs = Date.parse('2026-01-05T00:00:00Z');
  return sent
    .sort(([one], [other]) => one - other)
    .map(([atMs, name]) => ({
      time: startMs + Math.floor(atMs),
      domain: 'demo',
      descriptors: [{ entries: [{ key: 'user', value: name }] }],
    }))
    .map((request) => `${JSON.stringify(request)}\n`)
    .join('');
}

/** The limit that weir advise proposes after such a week. */
async function advisedOfWeek(): Promise<number> {
  const week = join(folder, 'week.ndjson');
  writeFileSync(week, weekOfRequests());
  const args = ['advise', '--rules', join(folder, 'rules.yaml'), '--rule', 'demo.user', '--json', week];
  const { stdout } = await runCommand(args);
  const { limits } = JSON.parse(stdout) as {
    readonly limits: readonly { readonly proposal?: { readonly requestsPerUnit: number } }[];
  };
  return limits[0]?.proposal?.requestsPerUnit ?? Number.NaN;
}
