import { algorithmFor } from '../../src/algorithms/index.ts';
import { unitMs } from '../../src/algorithms/limit.ts';
import type { Answer, Verdict } from '../../src/decide.ts';
import { createStatistics, type RuleCounts, type Statistics } from '../../src/observe/stats.ts';
import { fixedWindowOf } from '../helpers/limits.ts';

const NOW_MS = 1_700_000_000_000;

interface Told {
  readonly requestsPerUnit: number;
  /** What the counter stood at. */
  readonly before: number;
  readonly hits: number;
  readonly shadow?: boolean;
  readonly path?: string;
}

/** What a fixed window says of these hits. */
function limited({ requestsPerUnit, before, hits, shadow = false, path = 'd.k' }: Told): Verdict {
  const limit = fixedWindowOf(requestsPerUnit, unitMs.HOUR);
  const { step, describe } = algorithmFor(limit);
  const startMs = NOW_MS - (NOW_MS % limit.windowMs);
  const { accepted, state } = step(limit, [startMs, before], NOW_MS, hits);
  const decision = describe(limit, state, NOW_MS, hits, accepted);
  const rule = { path, limits: [limit], unlimited: false, shadow, quota: false, replaces: [] };
  return { kind: 'limited', rule, limit, decision, hits, code: shadow ? 'OK' : decision.code };
}

const answer = (verdicts: readonly Verdict[], fields: Partial<Answer> = {}): Answer => ({
  overallCode: 'OK',
  verdicts,
  shadowed: false,
  ...fields,
});

const rulesOf = (statistics: Statistics): readonly RuleCounts[] => [...statistics.rules()];

/** The counts of the one rule that was hit, by the names of the service this replaces; those that are 0 left out. */
function countsOf(statistics: Statistics): Record<string, number> {
  const [counts] = rulesOf(statistics);
  if (!counts) return {};
  const { totalHits: total, withinLimit: within, nearLimit: near, overLimit: over, shadowMode: shadow } = counts;
  return Object.fromEntries(Object.entries({ total, within, near, over, shadow }).filter(([, count]) => count !== 0));
}

function counted(told: Told, nearLimitRatio = 0.8): Record<string, number> {
  const statistics = createStatistics(nearLimitRatio);
  statistics.answered('d', answer([limited(told)]));
  return countsOf(statistics);
}

describe('hits of a limit', () => {
  test.each([
    { requestsPerUnit: 15, before: 10, hits: 1, counts: { total: 1, within: 1 } },
    { requestsPerUnit: 15, before: 11, hits: 1, counts: { total: 1, within: 1 } }, // just up to the near mark, 12
    { requestsPerUnit: 15, before: 12, hits: 1, counts: { total: 1, within: 1, near: 1 } },
    { requestsPerUnit: 15, before: 14, hits: 1, counts: { total: 1, within: 1, near: 1 } },
    { requestsPerUnit: 15, before: 15, hits: 1, counts: { total: 1, over: 1 } },
    { requestsPerUnit: 20, before: 2, hits: 3, counts: { total: 3, within: 3 } },
    { requestsPerUnit: 8, before: 5, hits: 2, counts: { total: 2, within: 2, near: 1 } },
    { requestsPerUnit: 20, before: 16, hits: 3, counts: { total: 3, within: 3, near: 3 } },
    { requestsPerUnit: 20, before: 19, hits: 3, counts: { total: 3, near: 1, over: 2 } },
    { requestsPerUnit: 20, before: 15, hits: 7, counts: { total: 7, near: 4, over: 2 } }, // the one below the near mark counts nowhere
    { requestsPerUnit: 10, before: 27, hits: 3, counts: { total: 3, over: 3 } },
    { requestsPerUnit: 10, before: 0, hits: 12, counts: { total: 12, near: 2, over: 2 } },
    { requestsPerUnit: 0, before: 0, hits: 1, counts: { total: 1, over: 1 } },
    { requestsPerUnit: 10, before: 9, hits: 0, counts: {} }, // a look
    { requestsPerUnit: 10, before: 11, hits: 0, counts: {} },
    { requestsPerUnit: 10, before: 9, hits: -3, counts: {} }, // given back
  ])('of $requestsPerUnit at $before, $hits more: $counts', ({ counts, ...told }) => {
    expect(counted(told)).toEqual(counts);
  });

  test.each([
    { requestsPerUnit: 20, before: 25, hits: 3, counts: { total: 3, over: 3, shadow: 3 } },
    { requestsPerUnit: 20, before: 19, hits: 3, counts: { total: 3, near: 1, over: 2, shadow: 2 } },
    { requestsPerUnit: 20, before: 16, hits: 3, counts: { total: 3, within: 3, near: 3 } },
  ])('in shadow mode, of $requestsPerUnit at $before, $hits more: $counts', ({ counts, ...told }) => {
    expect(counted({ ...told, shadow: true })).toEqual(counts);
  });

  test.each([
    [100, 0.29, 29], // in double precision it would be 28
    [4_294_967_295, 0.8, 3_435_973_888],
    [15, 0.8, 12],
    [10, 0.75, 7],
    [10, 0, 0],
    [10, 1, 10],
  ])('of %d are near it, with ratio %d, above %d', (requestsPerUnit, ratio, mark) => {
    const near = (before: number) => counted({ requestsPerUnit, before, hits: 1 }, ratio).near ?? 0;
    expect([mark > 0 ? near(mark - 1) : 0, near(mark)]).toEqual([0, mark < requestsPerUnit ? 1 : 0]);
  });

  test('add up, 25 one after the other on a limit of 20', () => {
    const statistics = createStatistics(0.8);
    for (let before = 0; before < 25; before++)
      statistics.answered('d', answer([limited({ requestsPerUnit: 20, before, hits: 1 })]));
    expect(countsOf(statistics)).toEqual({ total: 25, within: 20, near: 4, over: 5 });
  });
});

test('what has no limit counts for no rule', () => {
  const statistics = createStatistics(0.8);
  const rule = { path: 'd.u', limits: [], unlimited: true, shadow: false, quota: false, replaces: [] };
  statistics.answered('d', answer([{ kind: 'no_rule' }, { kind: 'unlimited', rule }]));
  expect(rulesOf(statistics)).toEqual([]);
});

test('rules are named by their domain, and their path without it', () => {
  const statistics = createStatistics(0.8);
  const one = { requestsPerUnit: 5, before: 0, hits: 1 };
  statistics.answered(
    'd',
    answer([limited({ ...one, path: 'd.user_alice.path' }), limited({ ...one, path: 'd.user' })]),
  );
  statistics.answered('d.e', answer([limited({ ...one, path: 'd.e.user' })]));
  statistics.answered('d', answer([limited({ ...one, path: 'd.' })])); // of a limit that came without any entry
  expect(rulesOf(statistics).map(({ domain, rule, algorithm }) => ({ domain, rule, algorithm }))).toEqual([
    { domain: 'd', rule: 'user_alice.path', algorithm: 'fixed_window' },
    { domain: 'd', rule: 'user', algorithm: 'fixed_window' },
    { domain: 'd.e', rule: 'user', algorithm: 'fixed_window' },
    { domain: 'd', rule: 'd.', algorithm: 'fixed_window' },
  ]);
});

test('rules of two domains are told apart, though their paths read alike', () => {
  const statistics = createStatistics(0.8);
  const told = { requestsPerUnit: 5, before: 0, hits: 1, path: 'd.e.user' };
  statistics.answered('d', answer([limited(told)]));
  statistics.answered('d.e', answer([limited(told)]));
  expect(rulesOf(statistics)).toMatchObject([
    { domain: 'd', rule: 'e.user', totalHits: 1 },
    { domain: 'd.e', rule: 'user', totalHits: 1 },
  ]);
});

test('answers count by their overall code, those that shadow mode made OK besides', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answer([]));
  statistics.answered('d', answer([], { shadowed: true }));
  statistics.answered('d', answer([], { overallCode: 'OVER_LIMIT' }));
  expect({ ...statistics.answers, shadowed: statistics.shadowed() }).toEqual({ OK: 2, OVER_LIMIT: 1, shadowed: 1 });
});

test('unknown domains count a descriptor each', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('nope', answer([{ kind: 'no_domain' }, { kind: 'no_domain' }]));
  statistics.answered('constructor', answer([{ kind: 'no_domain' }]));
  expect(Object.fromEntries(statistics.unknownDomains)).toEqual({ nope: 2, constructor: 1 });
});

describe('past 10,000 names', () => {
  const MAX_NAMES = 10_000;

  test('unknown domains are counted together, known ones as before', () => {
    const statistics = createStatistics(0.8);
    for (let at = 0; at < MAX_NAMES + 5; at++) statistics.answered(`domain-${at}`, answer([{ kind: 'no_domain' }]));
    statistics.answered('domain-0', answer([{ kind: 'no_domain' }]));
    expect(statistics.unknownDomains.size).toBe(MAX_NAMES + 1);
    expect(statistics.unknownDomains.get('(other)')).toBe(5);
    expect(statistics.unknownDomains.get('domain-0')).toBe(2);
  });

  test('rules are counted together, known ones as before', () => {
    const statistics = createStatistics(0.8);
    const hit = (at: number) =>
      statistics.answered('d', answer([limited({ requestsPerUnit: 5, before: 0, hits: 2, path: `d.rule-${at}` })]));
    for (let at = 0; at < MAX_NAMES + 5; at++) hit(at);
    hit(0);
    const rules = rulesOf(statistics);
    expect(rules).toHaveLength(MAX_NAMES + 1);
    expect(rules.at(-1)).toMatchObject({ domain: '(other)', rule: '(other)', totalHits: 10 });
    expect(rules[0]).toMatchObject({ domain: 'd', rule: 'rule-0', totalHits: 4 });
  });
});
