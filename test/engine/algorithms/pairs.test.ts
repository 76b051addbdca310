import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor, fullCapacity, type Limit } from '../../../src/engine/holds/limits.ts';
import {
  fixedWindowOf,
  leakyBucketOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import {
  fixedWindow,
  type Oracle,
  sharedBucket,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
} from './oracles.ts';

/** Two limits on one counter, as when only some instances have loaded a changed rule. */
interface Pair {
  readonly limits: readonly [Limit, Limit];
  readonly oracle: Oracle<Limit>;
}

interface Call {
  readonly reader: number;
  readonly onMs: number;
  readonly hits: number;
}

const START_MS = 1_700_000_000_000;

const anyHits = fc.integer({ min: 0, max: 30 });
const anySize = fc.integer({ min: 1, max: 30 });
const anySoft = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 10 }));
const anyWindowMs = fc.constantFrom(1, 10, 997, 1_000, 60_000);

/** Two limits of a kind with the same counter name. */
const pairOf = <L extends Limit>(
  make: (windowMs: number) => fc.Arbitrary<L>,
  oracleOf: (limit: L) => Oracle<L>,
): fc.Arbitrary<Pair> =>
  anyWindowMs
    .chain((windowMs) => fc.tuple(make(windowMs), make(windowMs)))
    .map((limits) => ({ limits, oracle: oracleOf(limits[0]) as Oracle<Limit> })); // it is used for these two only

const windowNumbers = fc.record({ hits: anyHits, soft: anySoft });
const bucketNumbers = (windowMs: number) =>
  fc.record({
    requestsPerUnit: anySize,
    burst: anySize,
    maxDelayMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2 * windowMs })),
  });

const pairs: Readonly<Record<string, fc.Arbitrary<Pair>>> = {
  'fixed windows': pairOf(
    (ms) => windowNumbers.map(({ hits, soft }) => fixedWindowOf(hits, ms, { soft })),
    (limit) => fixedWindow(limit, (atMs) => Math.floor(atMs / limit.windowMs)),
  ),
  'windows that begin with their first hit': pairOf(
    (ms) => windowNumbers.map(({ hits, soft }) => fixedWindowOf(hits, ms, { soft, alignment: 'first_hit' })),
    (limit) => fixedWindow(limit, () => 0),
  ),
  'sliding window logs': pairOf(
    (ms) =>
      fc
        .record({ numbers: windowNumbers, countDenied: fc.boolean() })
        .map(({ numbers: { hits, soft }, countDenied }) => slidingWindowLogOf(hits, ms, { soft, countDenied })),
    slidingWindowLog,
  ),
  'sliding window counters': pairOf(
    (ms) =>
      fc
        .record({ numbers: windowNumbers, rounding: fc.constantFrom('up' as const, 'down' as const) })
        .map(({ numbers: { hits, soft }, rounding }) => slidingWindowCounterOf(hits, ms, { soft, rounding })),
    slidingWindowCounter,
  ),
  'sliding windows in parts': pairOf(
    (ms) => windowNumbers.map(({ hits, soft }) => slidingWindowBucketsOf(hits, ms * 5, { soft, buckets: 5 })),
    slidingWindowBuckets,
  ),
  'token buckets': pairOf(
    (ms) =>
      fc
        .record({ numbers: bucketNumbers(ms), refill: fc.constantFrom('continuous' as const, 'interval' as const) })
        .map(({ numbers, refill }) => tokenBucketOf(numbers.requestsPerUnit, ms, { ...numbers, refill })),
    sharedBucket,
  ),
  'leaky buckets': pairOf(
    (ms) => bucketNumbers(ms).map((numbers) => leakyBucketOf(numbers.requestsPerUnit, ms, numbers)),
    sharedBucket,
  ),
};

const anyCalls = fc.array(
  fc.record({
    reader: fc.nat({ max: 1 }),
    onMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 200_000 })),
    hits: fc.integer({ min: -5, max: 40 }),
  }),
  { minLength: 1, maxLength: 30 },
);

/** Runs the calls on a counter like that of a store, and on the oracle. */
function compare({ limits, oracle }: Pair, calls: readonly Call[]): void {
  let state: State | undefined;
  let expiresAtMs = 0;
  let nowMs = START_MS;
  for (const [at, { reader, onMs, hits }] of calls.entries()) {
    const limit = limits[reader] ?? limits[0];
    const { step, describe: decide } = algorithmFor(limit);
    nowMs += onMs % (3 * limit.windowMs + 1);
    const next = step(limit, expiresAtMs > nowMs ? state : undefined, nowMs, hits, true);
    const { delayMs } = decide(limit, next.report ?? next.state, nowMs, {
      hits,
      accepted: next.accepted,
      charged: true,
    });
    const said = { accepted: next.accepted, delayMs };
    expect({ at, ...said }).toEqual({ at, ...oracle(nowMs, hits, limit) });
    state = next.state;
    expiresAtMs = nowMs + next.ttlMs;
  }
}

test.each(Object.entries(pairs))('two %s on one counter decide according to their definition', (_, anyPair) => {
  fc.assert(
    fc.property(anyPair, anyCalls, (pair, calls) => compare(pair, calls)),
    { numRuns: 300 },
  );
});

/** The limit's decision about a counter that another limit has spent. */
const peek = (limit: Limit, state: State, nowMs: number) => {
  const { step, describe: decide } = algorithmFor(limit);
  const { accepted, state: next, report = next } = step(limit, state, nowMs, 0, false);
  return decide(limit, report, nowMs, { hits: 0, accepted, charged: false });
};

const inBuckets = (burst: number): readonly [Limit, Limit] => [
  tokenBucketOf(60, 60_000, { burst }),
  leakyBucketOf(60, 60_000, { burst }),
];

test.each([0, 1])(
  'a bucket whose burst is lowered from 100 to 1 waits until the 100 spent tokens are refilled (%#)',
  (at) => {
    const [before, after] = [inBuckets(100)[at], inBuckets(1)[at]];
    if (!before || !after) throw new Error('there are two buckets');
    const { state } = algorithmFor(before).step(before, undefined, START_MS, 100, true);
    expect(peek(after, state, START_MS)).toMatchObject({ retryAfterMs: 100_000, durationUntilResetMs: 100_000 });
    expect(peek(before, state, START_MS)).toMatchObject({ retryAfterMs: 1_000, limitRemaining: 0 });
    expect(fullCapacity(after)).toBe(1);
  },
);
