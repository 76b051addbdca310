import '../../helpers/realm.ts';
import { AllRuleSeries, MAX_RULES, NAMED_BY_CALLERS } from '../../../src/operate/console/rule-series.ts';
import { Ring, Series } from '../../../src/operate/console/series.ts';
import { ServiceSeries } from '../../../src/operate/console/service-series.ts';
import { quantileMs } from '../../../src/operate/observe/histogram.ts';
import { createRuleCounts, noteHolds } from '../../../src/operate/observe/rule-counts.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';

const NOW_MS = 1_700_000_000_000;

test('a ring keeps the last rows, the oldest first', () => {
  const ring = new Ring(3, 2);
  for (let row = 1; row <= 5; row++) ring.push([row, row * 10]);
  expect(ring.column(0)).toEqual([3, 4, 5]);
  expect(ring.column(1)).toEqual([30, 40, 50]);
  expect(ring.sum(0)).toBe(12);
});

test('an hour has the mean rate and the highest latency of each 30 seconds', () => {
  const series = new Series(['mean', 'max']);
  for (let second = 1; second <= 60; second++) series.push([second <= 30 ? 10 : 20, second]);
  expect(series.column('1h', 0)).toEqual([10, 20]);
  expect(series.column('1h', 1)).toEqual([30, 60]);
  expect(series.column('60s', 0)).toHaveLength(60);
  expect(series.column('10m', 0)).toEqual([10, 10, 10, 20, 20, 20]);
  expect(series.column('24h', 0)).toEqual([]);
});

test('the memory of a series does not grow with time', () => {
  const series = new Series(['mean']);
  const { bytes } = series;
  for (let second = 0; second < 200_000; second++) series.push([second]);
  expect(series.bytes).toBe(bytes);
  expect(series.column('24h', 0)).toHaveLength(144);
});

test.each<[number, readonly number[], number]>([
  [0.5, [0, 0, 0], 0],
  [0.5, [100, 0, 0], 0.5],
  [0.99, [0, 100, 0], 1.99],
  [0.5, [0, 0, 10], 2],
])('the %p quantile of %p calls is %p ms', (quantile, counts, expected) => {
  expect(quantileMs(quantile, counts, [1, 2])).toBe(expected);
});

test('the counts of a rule in a second become its rate, over all its algorithms', () => {
  const counts = createRuleCounts(10_000);
  const window = counts.of('demo', ['user'], 'fixed_window', 'by_rule');
  const bucket = counts.of('demo', ['user'], 'token_bucket', 'by_rule');
  const series = new AllRuleSeries();
  series.gather(counts.all(), NOW_MS);
  expect(series.active('values')).toEqual([]);
  window.answeredOk += 3;
  bucket.answeredOver += 2;
  series.gather(counts.all(), NOW_MS);
  expect(series.active('values')).toEqual([['demo.user', 3, 2, 0, 0, 0]]);
  series.gather(counts.all(), NOW_MS);
  expect(series.active('values')).toEqual([]);
  expect(series.columns('demo.user', '60s', 'values')).toMatchObject({ passed: [0, 3, 0], refused: [0, 2, 0] });
  expect(series.refusingMost(5, 'values', NOW_MS)).toEqual([
    { rule: 'demo.user', refused: 2, passed: 3, sinceMs: NOW_MS },
  ]);
});

test('a rule with slots has the number of held slots in each second, which stays the same without requests', () => {
  const counts = createRuleCounts(10_000);
  const slots = counts.of('demo', ['tenant'], 'in_flight', 'by_rule');
  const series = new AllRuleSeries();
  const ask = (held: number, oldestMs: number, expired = 0): void => {
    slots.answeredOk++;
    noteHolds(slots, { held, oldestMs, expired });
  };
  ask(2, 500);
  ask(1, 700);
  slots.adapted = { limit: 6, held: 1, holdMs: 0, baselineMs: 0 };
  series.gather(counts.all(), NOW_MS);
  series.gather(counts.all(), NOW_MS); // a quiet second
  ask(1, 2_500, 3);
  series.gather(counts.all(), NOW_MS);
  expect(series.active('values')).toEqual([['demo.tenant', 1, 0, 0, 0, 0, 3, 1, 2.5, 6]]);
  ask(0, 0);
  series.gather(counts.all(), NOW_MS);
  series.gather(counts.all(), NOW_MS);
  expect(series.columns('demo.tenant', '60s', 'values')).toMatchObject({
    passed: [2, 0, 1, 1, 0],
    held: [2, 2, 1, 0, 0],
    oldest: [0.7, 1.7, 2.5, 0, 0],
    expired: [0, 0, 3, 0, 0],
    limit: [6, 6, 6, 6, 6],
  });
});

test('rules beyond the maximum number of series are left out', () => {
  const counts = createRuleCounts(10_000);
  for (let rule = 0; rule < MAX_RULES + 10; rule++)
    counts.of('demo', [`rule${rule}`], 'fixed_window', 'by_rule').answeredOk = 1;
  const series = new AllRuleSeries();
  series.gather(counts.all(), NOW_MS);
  expect(series.size).toBe(MAX_RULES);
});

test("limits with callers' values in their names are merged for a client that may not see values", () => {
  const counts = createRuleCounts(10_000);
  const own = counts.of('demo', ['user'], 'fixed_window', 'by_rule');
  const callers = ['ann', 'ben'].map((name) => counts.of('demo', [`user_${name}`], 'fixed_window', 'by_levels'));
  const series = new AllRuleSeries();
  series.gather(counts.all(), NOW_MS);
  for (const one of [own, ...callers]) one.answeredOver += 2;
  series.gather(counts.all(), NOW_MS);
  expect(series.names('values')).toEqual(['demo.user', 'demo.user_ann', 'demo.user_ben']);
  expect(series.names('hidden')).toEqual(['demo.user', NAMED_BY_CALLERS]);
  expect(series.active('hidden')).toEqual([
    ['demo.user', 0, 2, 0, 0, 0],
    [NAMED_BY_CALLERS, 0, 4, 0, 0, 0, 0, 0, 0, 0],
  ]);
  expect(series.refusingMost(1, 'hidden', NOW_MS)).toMatchObject([{ rule: NAMED_BY_CALLERS, refused: 4 }]);
  expect(series.columns('demo.user_ann', '60s', 'hidden')).toBeUndefined();
  expect(series.columns('demo.user_ann', '60s', 'values')).toMatchObject({ refused: [0, 2] });
  counts.of('demo', ['user_ann'], 'token_bucket', 'by_rule'); // a rule has the same name
  series.gather(counts.all(), NOW_MS);
  expect(series.names('hidden')).toEqual(['demo.user', NAMED_BY_CALLERS, 'demo.user_ann']);
});

test('limits with slots that callers name are added up, even after others without slots', () => {
  const counts = createRuleCounts(10_000);
  const series = new AllRuleSeries();
  counts.of('demo', ['user_ann'], 'fixed_window', 'by_levels').answeredOk++;
  series.gather(counts.all(), NOW_MS);
  for (const [name, held] of [['tenant_a', 2] as const, ['tenant_b', 3] as const]) {
    const slots = counts.of('demo', [name], 'in_flight', 'by_levels');
    slots.answeredOk++;
    noteHolds(slots, { held, oldestMs: held * 1_000, expired: 1 });
  }
  series.gather(counts.all(), NOW_MS);
  expect(series.active('hidden')).toEqual([[NAMED_BY_CALLERS, 2, 0, 0, 0, 0, 2, 5, 3, 0]]);
  expect(series.columns(NAMED_BY_CALLERS, '60s', 'hidden')).toMatchObject({ passed: [1, 2], held: [0, 5] });
});

test('a name is shown to all as long as a rule has it', () => {
  const gathered = (named: 'by_rule' | 'by_levels') => {
    const counts = createRuleCounts(10_000);
    counts.of('demo', ['user_ann'], 'fixed_window', named).answeredOk++;
    return counts.all();
  };
  const series = new AllRuleSeries();
  series.gather(gathered('by_rule'), NOW_MS);
  expect(series.names('hidden')).toEqual(['demo.user_ann']);
  series.gather(gathered('by_levels'), NOW_MS);
  expect(series.names('hidden')).toEqual([NAMED_BY_CALLERS]);
});

test('a rule refuses since its first refusal, until it refused nothing for five minutes', () => {
  const counts = createRuleCounts(10_000);
  const user = counts.of('demo', ['user'], 'fixed_window', 'by_rule');
  const series = new AllRuleSeries();
  const refuseAt = (afterMs: number): number | undefined => {
    user.answeredOver++;
    series.gather(counts.all(), NOW_MS + afterMs);
    return series.refusingMost(1, 'values', NOW_MS + afterMs)[0]?.sinceMs;
  };
  expect(refuseAt(0)).toBe(NOW_MS);
  expect(refuseAt(300_000)).toBe(NOW_MS);
  expect(refuseAt(600_000)).toBe(NOW_MS);
  expect(refuseAt(900_001)).toBe(NOW_MS + 900_001);
});

test('requests are counted by their outcome, of which each has one', () => {
  const statistics = createStatistics(0.8);
  const series = new ServiceSeries();
  series.begin(statistics);
  const durations = { counts: [], boundsMs: [] };
  Object.assign(statistics.answers, { OK: 5, OVER_LIMIT: 3 });
  Object.assign(statistics.degradedAnswers, { OK: 2, OVER_LIMIT: 1 });
  Object.assign(statistics.undecided, { store: 20, late: 10 });
  series.gather(statistics, durations, { lagMs: 0 });
  expect(series.last).toMatchObject({ passed: 3, refused: 2, degraded: 3, undecided: 30, unmatched: 0 });
  expect(series.undecidedBy()).toEqual({ store: 20, late: 10 });
  expect(series.lastMinute()).toEqual({ passed: 3, refused: 2, degraded: 3, undecided: 30, offered: 38, unmatched: 0 });
  expect(series.requestsOfMinute(statistics)).toBe(38);
  const after = (seconds: number): typeof series => {
    for (let at = 0; at < seconds; at++) series.gather(statistics, durations, { lagMs: 0 });
    return series;
  };
  expect(after(59).undecidedBy()).toEqual({ store: 20, late: 10 });
  expect(after(1).undecidedBy()).toEqual({});
});
