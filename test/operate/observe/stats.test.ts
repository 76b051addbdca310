import '../../helpers/realm.ts';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import { type State, spends, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { type Backend, StoreUnavailable } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Decider, decide, type RequestDescriptor, type Verdict } from '../../../src/engine/decide/decide.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import { OTHER } from '../../../src/operate/observe/caller-names.ts';
import { countedRule, type RuleCounts } from '../../../src/operate/observe/rule-counts.ts';
import { createStatistics, type Statistics } from '../../../src/operate/observe/stats.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { anyLikelyRequest, anyRules } from '../../helpers/explained.ts';
import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, labelOf, leakyBucketOf, ruleLimitOf, tokenBucketOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { ruleOf, rulesFrom } from '../../helpers/rules.ts';
import { answerOf as answer, verdictOf } from '../../helpers/verdicts.ts';

const NOW_MS = 1_700_000_000_000;

interface Case {
  readonly requestsPerUnit: number;
  /** The count before. */
  readonly before: number;
  readonly hits: number;
  readonly shadow?: boolean;
  readonly levels?: readonly string[];
}

/** The verdict of a fixed window on these hits. */
function limited({ requestsPerUnit, before, hits, ...more }: Case): Verdict {
  const limit = fixedWindowOf(requestsPerUnit, unitMs.HOUR);
  return saidBy(limit, [NOW_MS - (NOW_MS % limit.windowMs), before], hits, more);
}

/** The decision of a limit's algorithm on hits on a counter in this state. */
function saidBy(
  limit: Limit,
  before: State | undefined,
  hits: number,
  { shadow = false, levels = ['k'] }: Pick<Case, 'shadow' | 'levels'> = {},
): Verdict {
  const { step, describe } = algorithmFor(limit);
  const { accepted, state, report = state } = step(limit, before, NOW_MS, hits, true);
  const decision = describe(limit, report, NOW_MS, { hits, accepted, charged: true });
  const policy = shadow ? { shadow } : {};
  const rule = ruleOf({ levels, limits: [{ ...ruleLimitOf(limit), policy }] });
  return {
    kind: 'limited',
    rule,
    levels: rule.levels,
    found: { entries: [] },
    limit,
    label: labelOf(limit),
    policy,
    decision,
    hits,
    code: shadow ? 'OK' : decision.code,
  };
}

const rulesOf = (statistics: Statistics): readonly RuleCounts[] => [...statistics.rules()];

/** The counts of the only rule with hits, by the names of the service that this replaces, without zeros. */
function countsOf(statistics: Statistics): Record<string, number> {
  const [counts] = rulesOf(statistics);
  if (!counts) return {};
  const { totalHits: total, withinLimit: within, nearLimit: near, overLimit: over, shadowMode: shadow } = counts;
  const all = { total, within, near, over, shadow, soft: counts.softLimit, cached: counts.overLimitWithLocalCache };
  return Object.fromEntries(Object.entries(all).filter(([, count]) => count !== 0));
}

function counted(given: Case, nearLimitRatio = 0.8): Record<string, number> {
  const statistics = createStatistics(nearLimitRatio);
  statistics.answered('d', answer([limited(given)]));
  return countsOf(statistics);
}

describe('hits of a limit', () => {
  test.each([
    { requestsPerUnit: 15, before: 10, hits: 1, counts: { total: 1, within: 1 } },
    { requestsPerUnit: 15, before: 11, hits: 1, counts: { total: 1, within: 1 } }, // exactly up to the near mark, 12
    { requestsPerUnit: 15, before: 12, hits: 1, counts: { total: 1, within: 1, near: 1 } },
    { requestsPerUnit: 15, before: 14, hits: 1, counts: { total: 1, within: 1, near: 1 } },
    { requestsPerUnit: 15, before: 15, hits: 1, counts: { total: 1, over: 1 } },
    { requestsPerUnit: 20, before: 2, hits: 3, counts: { total: 3, within: 3 } },
    { requestsPerUnit: 8, before: 5, hits: 2, counts: { total: 2, within: 2, near: 1 } },
    { requestsPerUnit: 20, before: 16, hits: 3, counts: { total: 3, within: 3, near: 3 } },
    { requestsPerUnit: 20, before: 19, hits: 3, counts: { total: 3, near: 1, over: 2 } },
    { requestsPerUnit: 20, before: 15, hits: 7, counts: { total: 7, near: 4, over: 2 } }, // the hit below the near mark is not counted
    { requestsPerUnit: 10, before: 27, hits: 3, counts: { total: 3, over: 3 } },
    { requestsPerUnit: 10, before: 0, hits: 12, counts: { total: 12, near: 2, over: 2 } },
    { requestsPerUnit: 0, before: 0, hits: 1, counts: { total: 1, over: 1 } },
    { requestsPerUnit: 10, before: 9, hits: 0, counts: {} }, // a peek
    { requestsPerUnit: 10, before: 11, hits: 0, counts: {} },
    { requestsPerUnit: 10, before: 9, hits: -3, counts: {} }, // a refund
  ])('of $requestsPerUnit at $before, $hits more: $counts', ({ counts, ...given }) => {
    expect(counted(given)).toEqual(counts);
  });

  test.each([
    { requestsPerUnit: 20, before: 25, hits: 3, counts: { total: 3, over: 3, shadow: 3 } },
    { requestsPerUnit: 20, before: 19, hits: 3, counts: { total: 3, near: 1, over: 2, shadow: 2 } },
    { requestsPerUnit: 20, before: 16, hits: 3, counts: { total: 3, within: 3, near: 3 } },
  ])('in shadow mode, of $requestsPerUnit at $before, $hits more: $counts', ({ counts, ...given }) => {
    expect(counted({ ...given, shadow: true })).toEqual(counts);
  });

  test('that a process refused by its share are all over it, whatever the share has counted', () => {
    const statistics = createStatistics(0.8);
    const own = limited({ requestsPerUnit: 20, before: 5, hits: 3 });
    if (own.kind !== 'limited') throw new TypeError(`expected a limit, got ${own.kind}`);
    const decision = { ...own.decision, code: 'OVER_LIMIT', degraded: 'local' } as const;
    statistics.answered('d', answer([{ ...own, code: 'OVER_LIMIT', decision }]));
    expect(countsOf(statistics)).toEqual({ total: 3, over: 3 });
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
});

describe('of a request that repeats a descriptor', () => {
  const descriptor = { entries: [{ key: 'k', value: '' }], hits: 8, requestLimit: undefined };
  const repeated = { domain: 'd', descriptors: [descriptor, descriptor] };

  const charged = { total: 48, within: 8, near: 2, over: 38 };
  const tried = { total: 48, within: 24, near: 6, over: 18 };

  test.each([
    { spend: 'each', counts: charged },
    { spend: 'all_or_nothing', counts: tried },
    { spend: 'spare_others', counts: tried },
    { spend: 'each', shadow: true, counts: { ...charged, shadow: 38 } },
    { spend: 'all_or_nothing', shadow: true, counts: { ...charged, shadow: 38 } }, // nothing blocks
  ] as const)('the hits beyond the limit are over it, with $spend', async ({ spend, counts, ...modes }) => {
    const shadow = 'shadow' in modes ? 'shadow_mode: true, ' : '';
    const text = `{key: k, ${shadow}rate_limit: {unit: hour, requests_per_unit: 10}}`;
    const decider = deciderOf(rulesFrom(`domain: d\ndescriptors: [${text}]`), { spend });
    const statistics = createStatistics(0.8);
    for (let request = 0; request < 3; request++)
      statistics.answered('d', await decide(repeated, decider, Number.POSITIVE_INFINITY));
    expect(countsOf(statistics)).toEqual(counts);
  });
});

test('no count ever decreases, for any rules and requests, whether the store can count or not', async () => {
  const steps = fc.array(fc.record({ wire: anyLikelyRequest, isAway: fc.boolean(), waitMs: fc.nat({ max: 2_000 }) }), {
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(anyRules, steps, fc.constantFrom(...spends), async (rules, requests, spend) => {
      const clock = fakeClock(NOW_MS);
      const memory = createMemoryBackend(clock, { maxCounters: 10_000 });
      let isStoreAway = false;
      const away = { code: 'UNAVAILABLE', reason: 'away' } as const;
      const run: Backend['run'] = (all, how) => (isStoreAway ? all.map(() => away) : memory.run(all, how));
      const local = { maxCounters: 1_000, maxBytes: 1_000_000, instances: () => 1 };
      const ledger = ledgerOf({ ...memory, run }, { clock, monotonicMs: clock, local, denyCacheBytes: 1_000_000 });
      const statistics = createStatistics(0.8);
      const decider = deciderOf(rules, { spend, clock, ledger });
      for (const { wire, isAway, waitMs } of requests) {
        isStoreAway = isAway;
        clock.advance(waitMs);
        const before = rulesOf(statistics).map((counts) => ({ ...counts }));
        try {
          const request = decodeRequest(wire);
          statistics.answered(wire.domain, await decide(request, decider, Number.POSITIVE_INFINITY));
        } catch (cause) {
          statistics.failed(cause);
        }
        const decreased = rulesOf(statistics).flatMap((after, at) =>
          Object.entries(after).filter(([name, count]) => count < (before[at]?.[name as keyof RuleCounts] ?? 0)),
        );
        expect(decreased).toEqual([]);
      }
    }),
    { numRuns: 300 },
  );
});

describe('hits of a limit with a burst', () => {
  /** The counts after `hits` hits at once, on a counter with `before` hits. */
  function countedOn(limit: Limit, before: number, hits: number): Record<string, number> {
    const { step } = algorithmFor(limit);
    const spent = before === 0 ? undefined : step(limit, undefined, NOW_MS, before, true);
    if (spent?.accepted === false) throw new Error(`${before} hits do not fit`);
    const statistics = createStatistics(0.8);
    statistics.answered('d', answer([saidBy(limit, spent?.state, hits)]));
    return countsOf(statistics);
  }

  // 5 an hour, 20 at once: near from the 17th on
  const bursty = [tokenBucketOf(5, unitMs.HOUR, { burst: 20 }), leakyBucketOf(5, unitMs.HOUR, { burst: 20 })];
  describe.each(bursty)('by $algorithm', (limit) => {
    test.each([
      { before: 0, hits: 5, counts: { total: 5, within: 5 } },
      { before: 5, hits: 11, counts: { total: 11, within: 11 } }, // above the rate, not near the burst
      { before: 15, hits: 3, counts: { total: 3, within: 3, near: 2 } },
      { before: 16, hits: 4, counts: { total: 4, within: 4, near: 4 } },
      { before: 19, hits: 3, counts: { total: 3, near: 1, over: 2 } },
      { before: 20, hits: 3, counts: { total: 3, over: 3 } },
      { before: 20, hits: 0, counts: {} },
      { before: 20, hits: -5, counts: {} },
    ])('at $before, $hits more: $counts', ({ before, hits, counts }) => {
      expect(countedOn(limit, before, hits)).toEqual(counts);
    });
  });

  test('that are delayed are within it, and near it', () => {
    const queue = leakyBucketOf(3_600, unitMs.HOUR, { burst: 2, maxDelayMs: 10_000 });
    expect(countedOn(queue, 2, 1)).toEqual({ total: 1, within: 1, near: 1 });
  });

  test.each([
    { before: 19, hits: 1, counts: { total: 1, within: 1, near: 1 } },
    { before: 19, hits: 3, counts: { total: 3, within: 3, near: 3, soft: 3 } },
    { before: 22, hits: 1, counts: { total: 1, within: 1, near: 1, soft: 1 } },
    { before: 24, hits: 2, counts: { total: 2, over: 2 } },
    { before: 18, hits: 9, counts: { total: 9, near: 2, over: 7 } },
  ])('of which 5 more are soft, at $before, $hits more: $counts', ({ before, hits, counts }) => {
    expect(countedOn(tokenBucketOf(5, unitMs.HOUR, { burst: 20, soft: 5 }), before, hits)).toEqual(counts);
    expect(countedOn(leakyBucketOf(5, unitMs.HOUR, { burst: 20, soft: 5 }), before, hits)).toEqual(counts);
  });
});

test('hits on the soft part of a window have an additional counter', () => {
  const statistics = createStatistics(0.8);
  const limit = fixedWindowOf(10, unitMs.HOUR, { soft: 5 });
  const startMs = NOW_MS - (NOW_MS % limit.windowMs);
  for (const before of [8, 9, 10, 14, 15]) statistics.answered('d', answer([saidBy(limit, [startMs, before], 1)]));
  expect(countsOf(statistics)).toEqual({ total: 5, within: 4, near: 4, over: 1, soft: 2 });
});

test.each([
  { hits: 3, shadow: false, counts: { total: 3, over: 3, cached: 3 } },
  { hits: 3, shadow: true, counts: { total: 3, over: 3, cached: 3, shadow: 3 } },
  { hits: 0, shadow: false, counts: {} },
])('all $hits hits refused from the cache are over the limit, in shadow mode: $shadow', ({ hits, shadow, counts }) => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answer([verdictOf(['k'], { before: 10, hits, shadow, fromCache: true })]));
  expect(countsOf(statistics)).toEqual(counts);
});

describe('a request that could not be decided', () => {
  const rules = rulesFrom(`
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
`);
  const store = backendThat((hits) => hits.map(() => ({ code: 'UNAVAILABLE', reason: 'gone' })));
  const descriptor = (key: string, hits = 1) => ({ entries: [{ key, value: 'x' }], requestLimit: undefined, hits });

  /** The statistics after a failed request. */
  async function failed(
    descriptors: readonly RequestDescriptor[],
    changes: Partial<Decider> = {},
  ): Promise<Statistics> {
    const statistics = createStatistics(0.8);
    const ask = async () =>
      decide({ domain: 'd', descriptors }, deciderOf(rules, { ledger: ledgerOf(store), ...changes }), 1_000);
    statistics.failed(await ask().catch((cause: unknown) => cause));
    return statistics;
  }

  test('counts the hits if the store was unavailable, and nothing else of its rules', async () => {
    const descriptors = [descriptor('user', 2), descriptor('free'), descriptor('none'), descriptor('user')];
    const statistics = await failed([...descriptors, descriptor('user', 0), descriptor('user', -1)]);
    expect(countsOf(statistics)).toEqual({ total: 3 });
    expect(rulesOf(statistics)).toHaveLength(1);
    expect({ ...statistics.failures }).toEqual({ store: 1, service: 0 });
    expect(statistics.answers).toEqual({ OK: 0, OVER_LIMIT: 0 });
  });

  test.each([
    ['an invalid request', [], {}],
    ['no rules', [descriptor('user')], { rules: () => undefined }],
  ])('counts as a failure of the service for %s', async (_, descriptors, changes) => {
    const statistics = await failed(descriptors, changes);
    expect({ ...statistics.failures }).toEqual({ store: 0, service: 1 });
    expect(rulesOf(statistics)).toEqual([]);
  });
});

test('rules are named by domain and path, and requests without a limit count for none', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answer([{ kind: 'no_rule' }, { kind: 'unlimited', rule: ruleOf({ unlimited: true }) }]));
  const one = { requestsPerUnit: 5, before: 0, hits: 1 };
  statistics.answered(
    'd',
    answer([
      limited({ ...one, levels: ['user_alice', 'path'] }),
      limited({ ...one, levels: ['user'] }),
      limited({ ...one, levels: ['e', 'user'] }), // joined, its path is that of the rule of domain d.e
    ]),
  );
  statistics.answered('d.e', answer([limited({ ...one, levels: ['user'] })]));
  statistics.answered('d', answer([limited({ ...one, levels: [] })])); // a request's own limit without any entry
  expect(rulesOf(statistics).map(({ domain, rule, algorithm }) => ({ domain, rule, algorithm }))).toEqual([
    { domain: 'd', rule: 'user_alice.path', algorithm: 'fixed_window' },
    { domain: 'd', rule: 'user', algorithm: 'fixed_window' },
    { domain: 'd', rule: 'e.user', algorithm: 'fixed_window' },
    { domain: 'd.e', rule: 'user', algorithm: 'fixed_window' },
    { domain: 'd', rule: '', algorithm: 'fixed_window' },
  ]);
});

test('answers count by overall code, with an additional counter for those that shadow mode made OK', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answer([]));
  statistics.answered('d', answer([], { shadowed: true }));
  statistics.answered('d', answer([], { overallCode: 'OVER_LIMIT' }));
  expect({ ...statistics.answers, shadowed: statistics.sums.shadowed }).toEqual({ OK: 2, OVER_LIMIT: 1, shadowed: 1 });
});

test('a request counts as unmatched if none of its descriptors met a rule', () => {
  const statistics = createStatistics(0.8);
  const unlimited: Verdict = { kind: 'unlimited', rule: ruleOf({ unlimited: true }) };
  for (const verdicts of [
    [unlimited],
    [{ kind: 'no_rule' }, unlimited],
    [limited({ requestsPerUnit: 5, before: 0, hits: 1 }), { kind: 'no_rule' }],
  ] as const)
    statistics.answered('d', answer([...verdicts]));
  expect(statistics.sums.unmatched).toBe(0);
  statistics.answered('d', answer([{ kind: 'no_rule' }, { kind: 'no_rule' }]));
  statistics.answered('nope', answer([{ kind: 'no_domain' }]));
  expect(statistics.sums.unmatched).toBe(2);
});

test('unknown domains count one per descriptor', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('nope', answer([{ kind: 'no_domain' }, { kind: 'no_domain' }]));
  statistics.answered('constructor', answer([{ kind: 'no_domain' }]));
  expect(Object.fromEntries(statistics.unknownDomains)).toEqual({ nope: 2, constructor: 1 });
});

describe('beyond 10,000 names', () => {
  const MAX_NAMES = 10_000;

  test('unknown domains are counted together, known ones as before', () => {
    const statistics = createStatistics(0.8);
    for (let at = 0; at < MAX_NAMES + 5; at++) statistics.answered(`domain-${at}`, answer([{ kind: 'no_domain' }]));
    statistics.answered('domain-0', answer([{ kind: 'no_domain' }]));
    expect(statistics.unknownDomains.size).toBe(MAX_NAMES + 1);
    expect(statistics.unknownDomains.get('(other)')).toBe(5);
    expect(statistics.unknownDomains.get('domain-0')).toBe(2);
  });

  test("request limits are counted together, known ones and the operator's rules as before", () => {
    const statistics = createStatistics(0.8);
    const hit = (at: number) => statistics.answered('d', answer([namedByCaller([`rule-${at}`])]));
    for (let at = 0; at < MAX_NAMES + 5; at++) hit(at);
    hit(0);
    statistics.answered('d', answer([limited({ requestsPerUnit: 5, before: 0, hits: 2, levels: ['user'] })]));
    const rules = rulesOf(statistics);
    expect(rules).toHaveLength(MAX_NAMES + 2);
    expect(rules.at(-2)).toMatchObject({ domain: 'd', rule: 'user', totalHits: 2 });
    expect(rules.at(-1)).toMatchObject({ domain: '(other)', rule: '(other)', totalHits: 5 });
    expect(rules[0]).toMatchObject({ domain: 'd', rule: 'rule-0', totalHits: 2 });
  });

  test("an operator's rule and domain named (other) are counted with the rest", () => {
    const statistics = createStatistics(0.8, 0);
    const verdict = limited({ requestsPerUnit: 5, before: 0, hits: 2, levels: [OTHER] });
    statistics.answered('d', answer([namedByCaller(['any'])]));
    statistics.answered(OTHER, answer([verdict]));
    statistics.answered(OTHER, answer([{ kind: 'no_domain' }]));
    expect(rulesOf(statistics).map(({ domain, rule, totalHits }) => [domain, rule, totalHits])).toEqual([
      [OTHER, OTHER, 3],
    ]);
    expect([...statistics.unknownDomains]).toEqual([[OTHER, 1]]);
  });
});

/** A hit on a limit with these levels, some of which the caller names. */
function namedByCaller(levels: readonly string[], named: 'by_levels' | 'by_request' = 'by_request'): Verdict {
  const own = limited({ requestsPerUnit: 5, before: 0, hits: 1, levels });
  return own.kind === 'limited' ? { ...own, rule: { ...own.rule, named } } : own;
}

describe('names that callers create', () => {
  const levelsAfter = (levels: readonly string[]): readonly string[] => {
    const statistics = createStatistics(0.8);
    statistics.answered('d', answer([namedByCaller(levels)]));
    return rulesOf(statistics)[0]?.levels ?? [];
  };
  const lengthOf = (levels: readonly string[]) => levels.join('.').length;

  test.each([
    ['of 256 characters', ['x'.repeat(256)]],
    ['of 256 characters in two levels', ['x'.repeat(200), 'y'.repeat(55)]],
    ['of 32 levels', new Array<string>(32).fill('a')],
    ['that are empty', ['', '', '']],
  ])('%s are unchanged', (_, levels) => {
    expect(levelsAfter(levels)).toEqual(levels);
  });

  test.each([
    ['of 257 characters', ['x'.repeat(257)]],
    ['of 257 characters in two levels', ['x'.repeat(200), 'y'.repeat(56)]],
    ['of 33 levels', new Array<string>(33).fill('a')],
    ['of 1,000 empty levels', new Array<string>(1_000).fill('')],
    ['of 64 long levels', new Array<string>(64).fill('z'.repeat(10_000))],
    ['of characters beyond the first 65,536', ['\u{1F600}'.repeat(200)]],
  ])('%s are cut, and end with a digest of the full name', (_, levels) => {
    const shown = levelsAfter(levels);
    expect(lengthOf(shown)).toBeLessThanOrEqual(256);
    expect(shown.length).toBeLessThanOrEqual(32);
    expect(shown.at(-1)).toMatch(/~[\w-]{12}$/);
    expect(shown.join('')).not.toMatch(/\p{Surrogate}/u);
    expect(levelsAfter(levels)).toEqual(shown);
    expect(levelsAfter(shown)).toEqual(shown); // as reported by a worker
    for (const other of [
      [...levels, 'more'],
      [`${levels[0]}.${levels[1]}`, ...levels.slice(2)],
    ])
      expect(levelsAfter(other)).not.toEqual(shown);
  });

  test('that are long stay different, for limits and for domains', () => {
    const statistics = createStatistics(0.8);
    const long = 'x'.repeat(10_000);
    for (const last of ['a', 'b', 'a']) {
      statistics.answered('d', answer([namedByCaller([`${long}${last}`], 'by_levels')]));
      statistics.answered(`${long}${last}`, answer([{ kind: 'no_domain' }]));
    }
    expect(rulesOf(statistics).map(({ rule, totalHits }) => [rule.length, totalHits])).toEqual([
      [256, 2],
      [256, 1],
    ]);
    expect([...statistics.unknownDomains].map(([domain, times]) => [domain.length, times])).toEqual([
      [256, 2],
      [256, 1],
    ]);
  });

  test('are counted separately up to a budget, half for limits and half for domains, and rules always', () => {
    const statistics = createStatistics(0.8, 100_000);
    for (let at = 0; at < 1_000; at++) {
      const name = `"${at}`.padEnd(200, 'é');
      statistics.answered('d', answer([namedByCaller([name])]));
      statistics.answered(name, answer([{ kind: 'no_domain' }]));
      statistics.answered('d', answer([limited({ requestsPerUnit: 5, before: 0, hits: 1, levels: [`own ${at}`] })]));
    }
    const names = rulesOf(statistics).filter(({ named }) => named === 'by_request');
    const bytes = names.reduce((sum, { rule }) => sum + Buffer.byteLength(rule.replace('"', '\\"')) + 9, 0);
    expect(bytes).toBeGreaterThan(49_000);
    expect(bytes).toBeLessThanOrEqual(50_000 + 20);
    expect(names.at(-1)).toMatchObject({ domain: OTHER, totalHits: 1_000 - (names.length - 1) });
    expect(statistics.unknownDomains.size).toBe(names.length);
    expect(statistics.unknownDomains.get(OTHER)).toBe(1_000 - (names.length - 1));
    expect(rulesOf(statistics).filter(({ named }) => named === 'by_rule')).toHaveLength(1_000);
  });
});

describe('the counts of several processes', () => {
  const hit = (level: string, before: number) => limited({ requestsPerUnit: 5, before, hits: 1, levels: [level] });

  test('add up to those of one process', () => {
    const [one, other, whole] = [createStatistics(0.8), createStatistics(0.8), createStatistics(0.8)];
    for (const [before, statistics] of [one, other, one, other, one, other, one].entries()) {
      for (const each of [statistics, whole]) {
        each.answered('d', answer([hit('user', before), { kind: 'no_domain' }]));
        each.answered('d', answer([hit(`user-${before}`, 7)], { overallCode: 'OVER_LIMIT' }));
        each.answered(`d-${before}`, answer([{ kind: 'no_domain' }], { shadowed: true }));
        each.failed(new Error('a bug'));
        each.failed(new StoreUnavailable('away'));
        each.onCallFinished('ShouldRateLimit');
      }
    }
    const merged = createStatistics(0.8);
    for (const each of [one, other]) merged.merge(structuredClone(each.counted()));
    const byRule = (statistics: Statistics) => new Map(rulesOf(statistics).map((counts) => [counts.rule, counts]));
    expect(byRule(merged)).toEqual(byRule(whole));
    expect({ ...merged.counted(), rules: [] }).toEqual({ ...whole.counted(), rules: [] });
  });

  test('have as many names as those of one process, and count the rest together', () => {
    const counted = [0, 6_000].map((from) => {
      const statistics = createStatistics(0.8);
      for (let at = from; at < from + 10_005; at++) statistics.answered('d', answer([namedByCaller([`rule-${at}`])]));
      return statistics.counted();
    });
    const merged = createStatistics(0.8);
    for (const each of counted) merged.merge(each);
    const rules = rulesOf(merged);
    expect(rules).toHaveLength(10_001);
    expect(rules.at(-1)).toMatchObject({ domain: '(other)', totalHits: 5 + 6_005 });
    expect(rules.reduce((sum, { totalHits }) => sum + totalHits, 0)).toBe(20_010);
  });
});

test('held and expired slots are counted by rule, also for releases, and for other processes', () => {
  const statistics = createStatistics(0.8);
  const seen = (hits: number, held: number, oldestMs: number, expired: number) =>
    statistics.answered('d', answer([verdictOf(['k'], { hits, holds: { held, oldestMs, expired } })]));
  seen(1, 2, 1_500, 1);
  seen(-1, 1, 700, 2);
  const primary = createStatistics(0.8);
  primary.merge(statistics.counted());
  primary.merge(statistics.counted());
  for (const [one, expired] of [
    [statistics, 3],
    [primary, 6],
  ] as const) {
    const [rule] = [...one.rules()];
    expect([rule?.holds?.held.value, rule?.holds?.oldestMs.value, rule?.holds?.expired]).toEqual([2, 1_500, expired]);
  }
});

test('an adaptive limit is reported as the last request or release saw it, by this process or another', () => {
  const adapted = (limit: number, holdMs: number) => ({ limit, holdMs, baselineMs: 10, move: 'grown' }) as const;
  const statistics = createStatistics(0.8);
  const seen = (hits: number, held: number, limit: number, to = statistics) => {
    const holds = { held, oldestMs: 0, expired: 0, adapted: adapted(limit, 10 * limit) };
    to.answered('d', answer([verdictOf(['k'], { hits, holds })]));
  };
  const shown = (of: Statistics) => [...of.rules()].map((rule) => countedRule(rule).adapted);
  seen(1, 7, 8);
  seen(-1, 3, 4);
  expect(shown(statistics)).toMatchObject([{ limit: 4, held: 3, holdMs: 40, baselineMs: 10 }]);
  const [primary, other] = [createStatistics(0.8), createStatistics(0.8)];
  seen(1, 2, 6, primary);
  primary.merge(statistics.counted());
  expect(shown(primary)).toMatchObject([{ limit: 4, held: 3 }]);
  other.answered('d', answer([verdictOf(['k'], { hits: 1, holds: { held: 1, oldestMs: 0, expired: 0 } })]));
  primary.merge(other.counted());
  expect(shown(primary)).toMatchObject([{ limit: 4, held: 3 }]); // the other process has not seen one
  expect(shown(other)).toEqual([undefined]);
});

describe('of a rule with a budget and a limit on hits', () => {
  const both = (more: string) =>
    rulesFrom(
      `domain: d\ndescriptors: [{ key: k, unit_cost: 1 USD, ${more}rate_limits: [{ unit: day, budget: 9 USD, on_store_failure: allow }, { unit: minute, requests_per_unit: 1, on_store_failure: allow }] }]\n`,
    );
  const request = {
    domain: 'd',
    descriptors: [{ entries: [{ key: 'k', value: 'v' }], hits: 30, requestLimit: undefined }],
  };

  test('each limit in shadow mode counts what it counts itself', async () => {
    const statistics = createStatistics(0.8);
    statistics.answered('d', await decide(request, deciderOf(both('shadow_mode: true, ')), 1_000));
    const [counts] = rulesOf(statistics);
    const spared = 21e9 + 29; // dollars beyond the budget, and hits beyond the limit
    expect(counts?.shadowMode).toBe(spared);
  });

  test('the store fails for hits, and not for money', async () => {
    const statistics = createStatistics(0.8);
    const ledger = ledgerOf(
      backendThat((all) => all.map(() => ({ code: 'UNAVAILABLE', reason: 'away' }))),
      {
        local: { maxCounters: 10, maxBytes: 10_000, instances: () => 1 },
      },
    );
    const answer = await decide(request, deciderOf(both(''), { ledger }), 1_000);
    statistics.answered('d', answer);
    expect(statistics.degraded).toMatchObject({ allow: 30 });
  });
});

test('hits of rules under the limit of one override with wildcards are counted for each rule', async () => {
  const clock = fakeClock();
  const limit = 'rate_limit: { unit: day, requests_per_unit: 1 }';
  const rules = rulesFrom(`domain: d\ndescriptors: [{ key: k, ${limit} }, { key: k, value: ann, ${limit} }]\n`);
  const overrides = new Overrides(clock, (unit) => unitMs[unit]);
  const effect = { kind: 'limit', requestsPerUnit: 5, unit: 'HOUR' } as const;
  const named = { domain: 'd', entries: [{ key: 'k', value: 'a*' }], wildcard: true } as const;
  overrides.replace([{ ...named, effect, untilMs: Number.MAX_SAFE_INTEGER, by: '', reason: '' }]);
  const decider = deciderOf(rules, { clock, overrides });
  const statistics = createStatistics(0.8);
  for (const value of ['ann', 'amy', 'amy', 'ann', 'amy']) {
    const descriptors = [{ entries: [{ key: 'k', value }], hits: 1, requestLimit: undefined }];
    statistics.answered('d', await decide({ domain: 'd', descriptors }, decider, 1_000));
  }
  expect(rulesOf(statistics).map(({ rule, totalHits }) => [rule, totalHits])).toEqual([
    ['k_ann', 2],
    ['k', 3],
  ]);
});
