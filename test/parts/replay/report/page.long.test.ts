import '../../../helpers/realm.ts';
import { accessibilityViolations, overflowOf, startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { pageOf, type Row } from './report.ts';

/** Values that break pages which treat them as markup, or that change the display of text around them. */
const HOSTILE = [
  '<img src=x onerror=alert(1)><script>alert(2)</script>',
  '"><svg onload=alert(3)>',
  "' onmouseover='alert(4)",
  '</style></title></svg><iframe src=javascript:alert(5)>',
  '\u202Egnp.exe\u2066abc\u0000\u001b[2J',
  'x'.repeat(16_000),
];

/** Two newly refused users, one newly admitted, one refused by both, and many admitted by both. */
const ROWS: readonly Row[] = Array.from({ length: 900 }, (_, at): Row => {
  const user = `user-${at % 45}`;
  const isOver = at > 400 && at % 45 < 2;
  const wasOver = at % 45 === 7;
  return {
    atMs: at * 4_000,
    user,
    before: wasOver || at % 45 === 8 ? 'OVER_LIMIT' : 'OK',
    after: isOver || wasOver ? 'OVER_LIMIT' : 'OK',
  };
});

let browser: TestBrowser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(() => browser.close());
afterEach(async () => expect(await browser.endTest()).toEqual([]));

const open = async (page: string, options: Parameters<TestBrowser['open']>[0] = {}) => {
  const opened = await browser.open({ offline: true, ...options });
  await opened.setContent(page);
  return opened;
};

test("the report's first sentence has the share that a change refuses, and the newly refused keys are listed", async () => {
  const page = await open(pageOf(ROWS));
  expect(await page.textContent('h1')).toBe(
    'The change refuses 2.4 % of requests that passed before: 2 keys are newly hurt',
  );
  const tables = await page.getByRole('region', { name: 'Keys newly hurt' }).locator('tbody tr').allInnerTexts();
  expect(tables).toHaveLength(2);
  expect(tables[0]).toMatch(/^user=user-[01]\s+demo.user\s+20\s+0\s+1\d/);
  expect(await page.getByRole('region', { name: 'Keys newly spared' }).locator('tbody tr').count()).toBe(1);
  const plot = await page
    .getByRole('img', { name: /^Requests over time: / })
    .first()
    .getAttribute('aria-label');
  expect(plot).toBe('Requests over time: 838 passed, 20 newly admitted, 20 refused by both, 22 newly refused');
});

test('a report without other rules, one without requests and one with 60 rules are complete', async () => {
  const single = await open(pageOf(ROWS.map(({ after: _, ...row }) => row)));
  expect(await single.textContent('h1')).toBe('The rules refuse 4.4 % of requests, and hurt 2 keys');
  expect(await single.getByText('newly refused').count()).toBe(0);
  const empty = await open(pageOf([]));
  expect(await empty.textContent('h1')).toBe('There were no requests');
  const many = await open(pageOf(ROWS.map((row, at) => ({ ...row, rule: `demo.rule-${at % 60}` }))));
  expect(await many.locator('article').count()).toBe(25);
  expect(await many.getByRole('region', { name: 'Other rules' }).locator('tbody tr').count()).toBe(35);
});

test.each([
  ['light', 1_280],
  ['dark', 1_280],
  ['light', 360],
] as const)('a %s report of %i px is accessible and fits its window', async (colorScheme, width) => {
  const rows = [...ROWS, ...HOSTILE.map((user): Row => ({ atMs: 4_000_000, user, before: 'OK', after: 'OVER_LIMIT' }))];
  const page = await open(pageOf(rows, HOSTILE), { colorScheme, viewport: { width, height: 900 } });
  for (const details of await page.locator('details').all()) await details.evaluate('(one) => { one.open = true }');
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(await overflowOf(page)).toBe(0);
});

test('keys, rules, notes and file names that look like markup are text', async () => {
  const rows = HOSTILE.map((text): Row => ({ atMs: 0, user: text, before: 'OK', after: 'OVER_LIMIT', rule: text }));
  const page = await open(pageOf(rows, HOSTILE, HOSTILE));
  expect(await page.locator('script, img, iframe, [onload], [onerror], [onmouseover]').count()).toBe(0);
  expect(await page.locator('article').count()).toBe(HOSTILE.length);
  expect(await page.locator('h3').allTextContents()).toContain(HOSTILE[0]);
  expect(await page.textContent('body')).not.toMatch(/[\p{Cf}\p{Co}]/u);
});
