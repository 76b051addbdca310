import { createHash } from 'node:crypto';
import { algorithms, type RateName } from '../../../src/engine/algorithms/index.ts';
import type { Algorithm, Arrivals } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import { KeyArrivals } from '../../../src/parts/advise/key-arrivals.ts';
import { fixedWindowOf, slidingWindowCounterOf, slidingWindowLogOf, tokenBucketOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const WINDOW_MS = 1_000;
/** Rates for which a key's arrivals are tracked. */
const TRACKED_RATES = Array.from({ length: 18 }, (_, at) => 2 ** at);
const START_MS = 1_700_000_000_000;

interface Hit {
  readonly atMs: number;
  readonly hits: number;
}

/** Hits of a key with bursts, in order of time. */
const arrivals = fc
  .array(fc.record({ gapMs: fc.oneof(fc.nat(30), fc.nat(3_000)), hits: fc.integer({ min: 1, max: 5 }) }), {
    minLength: 1,
    maxLength: 60,
  })
  .map((gaps) => {
    let atMs = START_MS;
    return gaps.map(({ gapMs, hits }): Hit => {
      atMs += gapMs;
      return { atMs, hits };
    });
  });

function createKey(all: readonly Hit[]): KeyArrivals {
  const key = new KeyArrivals();
  for (const { atMs, hits } of all) key.add(hits, atMs, WINDOW_MS);
  return key;
}

/** The hits of each interval from one arrival to another, with its length in windows. */
function* intervals(all: readonly Hit[]): Iterable<{ readonly hits: number; readonly windows: number }> {
  for (const [from, first] of all.entries()) {
    let hits = 0;
    for (const last of all.slice(from)) {
      hits += last.hits;
      yield { hits, windows: (last.atMs - first.atMs) / WINDOW_MS };
    }
  }
}

/** The burst by definition, over all intervals. */
const burstBy = (all: readonly Hit[], rate: number): number =>
  Math.max(...Array.from(intervals(all), ({ hits, windows }) => hits - rate * windows));

/** The number of hits that a limit refuses, on a new counter. */
function refusedBy(limit: Limit, all: readonly Hit[]): number {
  let state: readonly number[] | undefined;
  let refused = 0;
  for (const { atMs, hits } of all) {
    const step = algorithmFor(limit).step(limit, state, atMs, hits, true);
    state = step.state;
    if (!step.accepted) refused++;
  }
  return refused;
}

const demandUnder = (name: RateName, key: Arrivals): number => {
  const row: Pick<Algorithm, 'demand'> = algorithms[name];
  return row.demand?.(key) ?? 0;
};

test('the burst that a key needs is the maximum excess of any interval over the rate', () => {
  fc.assert(
    fc.property(arrivals, fc.integer({ min: 0, max: TRACKED_RATES.length - 1 }), (all, at) => {
      const rate = TRACKED_RATES[at] ?? 1;
      expect(Math.abs(createKey(all).burstAt(rate) - burstBy(all, rate))).toBeLessThan(1 + 1e-6);
      expect(createKey(all).burstAt(rate)).toBeGreaterThanOrEqual(burstBy(all, rate) - 1e-6);
    }),
  );
});

test('the burst between two tracked rates has an upper bound', () => {
  fc.assert(
    fc.property(arrivals, fc.integer({ min: 1, max: 200 }), (all, rate) => {
      expect(createKey(all).burstAt(rate)).toBeGreaterThanOrEqual(burstBy(all, rate) - 1e-6);
      expect(createKey(all).burstAt(rate)).toBeLessThanOrEqual(
        Math.ceil(burstBy(all, 2 ** Math.floor(Math.log2(rate)))),
      );
    }),
  );
});

test('the arrival curve is above the hits of every interval, and never above all hits', () => {
  fc.assert(
    fc.property(arrivals, (all) => {
      const key = createKey(all);
      for (const { hits, windows } of intervals(all)) expect(key.mostWithin(windows)).toBeGreaterThanOrEqual(hits);
      expect(key.mostWithin(1_000_000)).toBe(all.reduce((sum, { hits }) => sum + hits, 0));
    }),
  );
});

test('a token bucket with the burst that a key needs refuses nothing, but a smaller one does', () => {
  fc.assert(
    fc.property(arrivals, fc.constantFrom(...TRACKED_RATES.slice(0, 8)), (all, rate) => {
      const burst = createKey(all).burstAt(rate);
      expect(refusedBy(tokenBucketOf(rate, WINDOW_MS, { burst }), all)).toBe(0);
      if (burst > 1) expect(refusedBy(tokenBucketOf(rate, WINDOW_MS, { burst: burst - 1 }), all)).toBeGreaterThan(0);
    }),
  );
});

test('a window with the limit that a key needs refuses nothing, but a smaller one does', () => {
  fc.assert(
    fc.property(arrivals, (all) => {
      const key = createKey(all);
      const fixed = demandUnder('fixed_window', key);
      expect(refusedBy(fixedWindowOf(fixed, WINDOW_MS), all)).toBe(0);
      expect(refusedBy(fixedWindowOf(fixed - 1, WINDOW_MS), all)).toBeGreaterThan(0);
      const sliding = demandUnder('sliding_window_counter', key);
      expect(refusedBy(slidingWindowCounterOf(sliding, WINDOW_MS), all)).toBe(0);
      expect(refusedBy(slidingWindowCounterOf(sliding - 1, WINDOW_MS), all)).toBeGreaterThan(0);
      expect(refusedBy(slidingWindowLogOf(demandUnder('sliding_window_log', key), WINDOW_MS), all)).toBe(0);
    }),
  );
});

test('the number of clients behind a key is exact for one client, and off by at most a fifth for more', () => {
  const key = new KeyArrivals();
  for (let hit = 0; hit < 10; hit++) key.addClient(4_711);
  expect(key.clients?.estimate).toBe(1);
  for (let client = 0; client < 300; client++)
    key.addClient(createHash('sha1').update(`client ${client}`).digest().readUInt32LE());
  expect(key.clients?.estimate).toBeGreaterThan(240);
  expect(key.clients?.estimate).toBeLessThan(360);
});
