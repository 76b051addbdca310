import '../../helpers/realm.ts';
import { createRuleCounts, noteHolds } from '../../../src/operate/observe/rule-counts.ts';
import { AllRuleSeries, MAX_RULES, NAMED_BY_CALLERS } from '../../../src/parts/console/rule-series.ts';

const NOW_MS = 1_700_000_000_000;

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
