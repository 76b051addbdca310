import '../../helpers/realm.ts';
import { randomUUID } from 'node:crypto';
import { NEVER_MS, spends } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Answer, type Decider, decide, type RateLimitRequest } from '../../../src/engine/decide/decide.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { finish } from '../../../src/engine/rules/compile/steps.ts';
import { LevelBuilder } from '../../../src/engine/rules/match/level-builder.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { onStillClock } from '../../helpers/lasting-counters.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import {
  calendarWindowOf,
  fixedWindowOf,
  inFlightOf,
  leakyBucketOf,
  ruleLimitOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { startRedis } from '../../helpers/redis.ts';
import { ruleOf } from '../../helpers/rules.ts';

type LedgerOptions = NonNullable<Parameters<typeof ledgerOf>[1]>;

const RUNS = Number(process.env.RETRY_RUNS ?? 500);
const RUNS_IN_REDIS = 100;
const START_MS = 1_700_000_000_000;

const hits = fc.constantFrom(0, 1, 1, 2, 3, 4, 6);
const windowMs = fc.constantFrom(100, 1_000, 7_000, 60_000);
const soft = fc.constantFrom(0, 0, 1, 2);

/** Small limits of every algorithm that rules name. */
const anySmallLimit: fc.Arbitrary<Limit> = fc
  .record({
    hits,
    windowMs,
    soft,
    isOther: fc.boolean(),
    burst: fc.integer({ min: 1, max: 6 }),
    maxDelayMs: fc.constantFrom(0, 0, 500, 9_000),
  })
  .chain(({ hits, windowMs, soft, isOther, burst, maxDelayMs }) => {
    const rate = Math.max(hits, 1);
    const bucket = { burst, ...(maxDelayMs > 0 ? { maxDelayMs } : { soft }) };
    return fc.constantFrom<Limit>(
      fixedWindowOf(hits, windowMs, { soft, ...(isOther && { alignment: 'first_hit' }) }),
      calendarWindowOf(hits, isOther ? 'HOUR' : 'DAY', 'Europe/Berlin', { soft }),
      slidingWindowLogOf(hits, windowMs, { soft, countDenied: isOther }),
      slidingWindowCounterOf(hits, windowMs, { soft, rounding: isOther ? 'up' : 'down' }),
      slidingWindowBucketsOf(hits, windowMs, { soft }),
      tokenBucketOf(rate, windowMs, { ...bucket, refill: isOther ? 'interval' : 'continuous' }),
      leakyBucketOf(rate, windowMs, bucket),
      inFlightOf(hits, windowMs, { soft }),
    );
  });

const anyRule = fc.record({
  limits: fc.array(fc.record({ limit: anySmallLimit, isCharged: fc.boolean() }), { minLength: 1, maxLength: 3 }),
  modes: fc.constantFrom({}, {}, {}, { shadow: true as const }, { quota: true as const }, { quota: true as const }),
});

interface Rules {
  readonly tree: RuleTree;
  /** The keys whose rules have a `max_delay`. */
  readonly delayed: ReadonlySet<string>;
}

/** Rules for the keys a, b and c of the domain `d`. */
const anyRules: fc.Arbitrary<Rules> = fc
  .record({
    rules: fc.array(anyRule, { minLength: 3, maxLength: 3 }),
    spend: fc.constantFrom('each', 'each', ...spends),
  })
  .map(({ rules, spend }) => {
    const level = new LevelBuilder();
    const delayed = new Set<string>();
    for (const [at, { limits, modes }] of rules.entries()) {
      const numbered = limits.map(({ limit, isCharged }, place) => {
        const canOwe = isCharged && limit.algorithm !== 'in_flight' && limit.algorithm !== 'sliding_window_log';
        return {
          ...ruleLimitOf({ ...limit, counter: `${limit.counter}#${place}` }),
          policy: { ...modes, ...(canOwe && { charge: 'always' as const }) },
        };
      });
      const composite = 'abc'[at] ?? '';
      if (limits.some(({ limit }) => 'maxDelayMs' in limit && limit.maxDelayMs > 0)) delayed.add(composite);
      const rule = ruleOf({ path: `d.${composite}`, limits: numbered });
      level.add(
        { key: composite },
        {
          ...{ composite, naming: 'rule', hasRule: true, rule },
          ...{ children: undefined, sharedValue: undefined },
        },
      );
    }
    const root = finish(level.build());
    const tree: RuleTree = { domains: new Map([['d', { name: 'd', spend, root, ruleCount: 3 }]]), rules: [] };
    return { tree, delayed };
  });

/** One to four descriptors; the same ones have the same hits. */
const anyRequest: fc.Arbitrary<RateLimitRequest> = fc
  .record({
    keys: fc.array(fc.constantFrom('a', 'a', 'a', 'b', 'b', 'c', 'unknown'), { minLength: 1, maxLength: 4 }),
    hits: fc.record({ a: fc.nat({ max: 3 }), b: fc.nat({ max: 3 }), c: fc.nat({ max: 3 }), unknown: fc.constant(1) }),
  })
  .map(({ keys, hits }) => ({
    domain: 'd',
    descriptors: keys.map((key) => ({
      entries: [{ key, value: '' }],
      hits: hits[key as keyof typeof hits], // only such keys are drawn
      requestLimit: undefined,
    })),
  }));

const anyCase = fc.record({
  rules: anyRules,
  earlier: fc.array(fc.record({ request: anyRequest, onMs: fc.constantFrom(0, 0, 1, 90, 1_000, 5_000) }), {
    maxLength: 5,
  }),
  request: anyRequest,
  quotaMode: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
});
type Case = typeof anyCase extends fc.Arbitrary<infer C> ? C : never;

/** The answers to the last request, and to the same request a while later, on new counters. */
async function answersOf(
  { rules, earlier, request, quotaMode }: Case,
  laterMs: number | undefined,
  world: { readonly backend: Backend; readonly clock: ReturnType<typeof fakeClock> },
  changes: Partial<LedgerOptions> = {},
): Promise<Answer> {
  const { backend, clock } = world;
  clock.set(START_MS);
  const counters = ownCounters(createCounterKeys(`${randomUUID()}:`));
  const ledger = ledgerOf(backend, { clock, monotonicMs: clock, ...changes });
  const decider: Decider = deciderOf(rules.tree, { clock, counters, ledger, quotaMode, storeBudget: () => 60_000 });
  const answer = async (one: RateLimitRequest) => await decide(one, decider, Number.POSITIVE_INFINITY);
  for (const { request: one, onMs } of earlier) {
    await answer(one);
    clock.advance(onMs);
  }
  const last = await answer(request);
  if (laterMs === undefined) return last;
  clock.advance(laterMs);
  return answer(request);
}

const inMemory = () => {
  const clock = fakeClock(START_MS);
  return { clock, backend: createMemoryBackend(clock, { maxCounters: 1_000 }) };
};

/** Times at which a request is tried that never passes. */
const LATER_MS = [1, 99, 100, 1_000, 6_500, 60_000, 3_600_000, 86_400_000];

interface Seen {
  finite: number;
  never: number;
}

/** The delay of hits beyond a bucket's size is rounded up to whole milliseconds, or to windows of a `refill`. */
const repeatsDelayed = ({ request: { descriptors }, rules }: Case): boolean =>
  descriptors.some(
    ({ entries: [entry] }, at) =>
      descriptors.findIndex((other) => other.entries[0]?.key === entry?.key) < at &&
      rules.delayed.has(entry?.key ?? ''),
  );

async function check(drawn: Case, world: () => Parameters<typeof answersOf>[2], seen: Seen): Promise<void> {
  const { overallCode, retryAfterMs } = await answersOf(drawn, undefined, world());
  if (overallCode === 'OK') return expect(retryAfterMs).toBeUndefined();
  const codeAfter = async (ms: number) => (await answersOf(drawn, ms, world())).overallCode;
  if (retryAfterMs === NEVER_MS) {
    if (repeatsDelayed(drawn)) return;
    seen.never++;
    for (const ms of LATER_MS) expect({ ms, code: await codeAfter(ms) }).toEqual({ ms, code: 'OVER_LIMIT' });
    return;
  }
  seen.finite++;
  const waitMs = retryAfterMs ?? 0;
  expect(waitMs).toBeGreaterThanOrEqual(1);
  expect({ waitMs, code: await codeAfter(waitMs) }).toEqual({ waitMs, code: 'OK' });
  if (!repeatsDelayed(drawn))
    expect({ waitMs, code: await codeAfter(waitMs - 1) }).toEqual({ waitMs, code: 'OVER_LIMIT' });
}

test('a refused request that waits as long as promised passes, and not a millisecond earlier, without reservations, leases, refunds and schedules', async () => {
  const seen = { finite: 0, never: 0 };
  await fc.assert(
    fc.asyncProperty(anyCase, (drawn) => check(drawn, inMemory, seen)),
    { numRuns: RUNS },
  );
  expect(seen.finite).toBeGreaterThan(RUNS / 10);
  expect(seen.never).toBeGreaterThan(RUNS / 10);
});

test('a refused request on counters in Redis passes exactly when promised as well', async () => {
  const server = await startRedis();
  const clock = fakeClock(START_MS);
  const backend = new RedisBackend(await openReady(server), clock, onStillClock);
  const seen = { finite: 0, never: 0 };
  try {
    await fc.assert(
      fc.asyncProperty(anyCase, (drawn) => check(drawn, () => ({ backend, clock }), seen)),
      { numRuns: RUNS_IN_REDIS },
    );
  } finally {
    await backend.close();
    await server.stop();
  }
  expect(seen.finite).toBeGreaterThan(RUNS_IN_REDIS / 10);
});

test('with cached refusals a refused request passes after the promised time at the latest', async () => {
  const changes = { denyCacheBytes: 1_000_000 };
  let finite = 0;
  await fc.assert(
    fc.asyncProperty(anyCase, async (drawn) => {
      const { overallCode, retryAfterMs = 0 } = await answersOf(drawn, undefined, inMemory(), changes);
      if (overallCode === 'OK' || retryAfterMs === NEVER_MS) return;
      finite++;
      const { overallCode: code } = await answersOf(drawn, retryAfterMs, inMemory(), changes);
      expect({ retryAfterMs, code }).toEqual({ retryAfterMs, code: 'OK' });
    }),
    { numRuns: RUNS },
  );
  expect(finite).toBeGreaterThan(RUNS / 10);
});
