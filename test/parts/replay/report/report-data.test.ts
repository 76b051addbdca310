import { ReplayFigures } from '../../../../src/parts/replay/figures.ts';
import { TrafficCounts } from '../../../../src/parts/replay/input.ts';
import { reportPage } from '../../../../src/parts/replay/report/page.ts';
import { keyOutcome, ReportData } from '../../../../src/parts/replay/report/report-data.ts';
import { OutcomeSeries, TimeAxis } from '../../../../src/parts/replay/report/time-axis.ts';
import { observed, pageOf, type Row, START_MS } from './report.ts';

const sumSeries = (series: OutcomeSeries) =>
  series.columns().reduce(
    (sums, column) => ({
      passed: sums.passed + column.passed,
      spared: sums.spared + column.spared,
      newly_refused: sums.newly_refused + column.newly_refused,
      refused: sums.refused + column.refused,
    }),
    { passed: 0, spared: 0, newly_refused: 0, refused: 0 },
  );

test('columns get wider as time passes, and no request is lost', () => {
  const axis = new TimeAxis();
  const series = new OutcomeSeries(axis);
  const idle = new OutcomeSeries(axis); // has nothing to widen until the end
  const widths: number[] = [];
  let atMs = START_MS;
  for (let request = 0; request < 3_000; request++) {
    atMs += request * 40;
    axis.reach(atMs);
    series.add(atMs, request % 3 === 0 ? 'refused' : 'passed');
    if (request === 0) idle.add(atMs, 'spared');
    if (widths.at(-1) !== axis.columnMs) widths.push(axis.columnMs);
  }
  expect(widths).toEqual([...widths].sort((a, b) => a - b));
  expect(widths.length).toBeGreaterThan(5);
  expect(sumSeries(series)).toEqual({ passed: 2_000, spared: 0, newly_refused: 0, refused: 1_000 });
  expect(sumSeries(idle).spared).toBe(1);
  expect(series.columns()).toHaveLength(axis.columns.count);
  expect(axis.columns.count).toBeLessThanOrEqual(181);
  expect(axis.columns.first).toBe(Math.floor(START_MS / axis.columnMs));
});

const row = (user: string, before: Row['before'], after: Row['before'], atMs = 0): Row => ({
  atMs,
  user,
  before,
  after,
});

test('requests and keys are counted by the answers of both rule sets', () => {
  const { data } = observed([
    row('ann', 'OK', 'OK'),
    row('ann', 'OK', 'OVER_LIMIT'),
    row('bob', 'OVER_LIMIT', 'OK'),
    row('cem', 'OVER_LIMIT', 'OVER_LIMIT', 10),
    row('dee', 'OK', 'OK', 20),
  ]);
  const expected = { passed: 2, spared: 1, newly_refused: 1, refused: 1 };
  expect(sumSeries(data.all)).toEqual(expected);
  const rule = data.rules.get('demo.user');
  expect(rule && sumSeries(rule.series)).toEqual(expected);
  expect(rule?.before).toEqual({ limit: 10, windowMs: 60_000, currency: undefined });
  expect(rule?.after).toEqual({ limit: 5, windowMs: 60_000, currency: undefined });
  expect(Array.from(rule?.keys.all ?? [], ([name, key]) => [name, keyOutcome(key)])).toEqual([
    ['user=ann', 'newly_refused'],
    ['user=bob', 'spared'],
    ['user=cem', 'refused'],
    ['user=dee', 'passed'],
  ]);
});

test("the busiest window of a key is the one with the most hits, of the rule's length", () => {
  const at = [0, 1, 2, 59_000, 60_000, 61_000, 200_000];
  const { data } = observed(at.map((atMs) => row('ann', 'OK', 'OK', atMs)));
  expect(data.rules.get('demo.user')?.keys.all.get('user=ann')).toMatchObject({ requests: 7, busiest: 4 });
});

test('requests of keys beyond the bound are counted, and long keys are not kept completely', () => {
  const rows = [row('x'.repeat(10_000), 'OK', 'OK'), row('y', 'OK', 'OK'), row('z', 'OK', 'OK'), row('z', 'OK', 'OK')];
  const { data } = observed(rows, 2);
  const names = [...(data.rules.get('demo.user')?.keys.all.keys() ?? [])];
  expect(names.map(({ length }) => length)).toEqual([expect.any(Number), 6]);
  expect(names[0]?.length).toBeLessThan(500);
  expect(data.untracked).toBe(2);
});

test('rules beyond the bound are counted together, without keys', () => {
  const rows = ['a', 'b', 'c', 'b'].map((rule) => ({ ...row('ann', 'OK', 'OVER_LIMIT'), rule }));
  const { data } = observed(rows, undefined, 1);
  expect([...data.rules.keys()]).toEqual(['a', '(other)']);
  expect(data.rules.get('(other)')).toMatchObject({ before: undefined, after: undefined });
  expect(data.rules.get('(other)')?.keys.all.size).toBe(0);
});

test('the page is one file without scripts, the same for the same requests, and shows markup as text', () => {
  const markup = ['<img src=x onerror=alert(1)><script>', '"><svg onload=alert(3)>', '</style></title></svg><iframe>'];
  const page = () =>
    pageOf(
      ['ann', ...markup].map((user): Row => ({ atMs: 0, user, before: 'OK', after: 'OVER_LIMIT', rule: user })),
      markup,
      markup,
    );
  expect(page()).toBe(page());
  expect(page()).not.toMatch(/<script|<link|https?:|url\(|@import|<img|<svg onload|<iframe/);
});

test('a budget is shown in its currency, from its limit to its busiest keys', () => {
  const data = new ReportData();
  const figures = new ReplayFigures();
  const request = {
    domain: 'shop',
    descriptors: [{ entries: [{ key: 'team', value: 'search' }], hits: 1_200, requestLimit: undefined }],
  };
  const budget = { limit: 2_500_000_000, windowMs: 60_000, hits: 1_250_000_000, currency: 'USD' };
  const key = 'fixed_window.2|USD|60000|4:shop|4:team|6:search';
  const answer = {
    code: 'OK',
    descriptors: [{ rule: 'shop.team', key, code: 'OK', remaining: 0, ...budget }],
  } as const;
  data.observe({ timeMs: START_MS, request }, answer);
  figures.observe({ timeMs: START_MS, request }, answer);
  const names = { rules: 'rules.yaml', against: undefined, traffic: [] };
  const page = reportPage({ data, figures: figures.result(), counts: new TrafficCounts(), warnings: [], names });
  for (const text of [
    '<p class="limits">2.50 USD a minute</p>',
    'limit 2.50 USD</span>',
    '1.25 USD with a limit of 2.50 USD',
    '1 key with up to 2.00 USD',
    '<span>≤0.01</span>',
    'keys, by the cost in their busiest window, in USD',
  ])
    expect(page).toContain(text);
  expect(page).not.toContain('000,000');
});
