import type { RateLimit } from '../../../src/engine/algorithms/index.ts';
import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import {
  fixedWindowOf,
  leakyBucketOf,
  reservationOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const NOW_MS = 1_000_000;
const DAY_MS = 86_400_000;
const SIZE = 4;
const MAX_RESERVATIONS = 1_000;
/** Places in the report of a step. */
const [EVENT, FREE_MS] = [0, 8];
const REFUSED = 1;

/** A counter without charges, and a list whose entries have these hits and expire this long from now. */
const stateOf = (entries: readonly (readonly [hits: number, leftMs: number])[]): State => [
  ...[2, 0, 0],
  ...entries
    .toSorted(([, one], [, other]) => one - other)
    .flatMap(([hits, leftMs], at) => [at + 1, hits, NOW_MS + leftMs, NOW_MS - 10]),
];

const full = stateOf(Array.from({ length: MAX_RESERVATIONS }, (_, at) => [1, 1 + at] as const));

/** Reserves hits beside these entries. */
function reserve(state: State, capacity: number, hits: number, holder: number) {
  const limit = reservationOf(fixedWindowOf(capacity, DAY_MS));
  const { accepted, report = [], state: next } = algorithmFor(limit).step(limit, state, NOW_MS, hits, true, { holder });
  return { accepted, event: report[EVENT], freeMs: report[FREE_MS], next };
}

/** When the hits fit, by subtracting expired entries one by one. */
function slowly(state: State, capacity: number, hits: number, holder: number): number | undefined {
  const others: { readonly hits: number; readonly untilMs: number }[] = [];
  for (let at = 3; at < state.length; at += SIZE) {
    const [one, held = 0, untilMs = 0] = state.slice(at, at + SIZE);
    if (one !== holder && untilMs > NOW_MS) others.push({ hits: held, untilMs });
  }
  let left = others.reduce((sum, one) => sum + one.hits, 0);
  return others.find((one) => {
    left -= one.hits;
    return one.hits > 0 && left + hits <= capacity;
  })?.untilMs;
}

describe('a reservation that is never committed', () => {
  const TTL_MS = 60_000;
  /** Runs steps at times, in ms, on one counter. @returns charged hits, hits on hold, and lapsed hits after each */
  function steps(
    onLapse: 'charge' | 'free',
    schedule: readonly (readonly [atMs: number, what: 'reserve' | 'commit', holder: number, hits: number])[],
    inner: RateLimit = fixedWindowOf(1_000, DAY_MS),
  ) {
    const limit = reservationOf(inner as never, { onLapse, ttlMs: TTL_MS }); // no reservation itself
    let state: State | undefined;
    return schedule.map(([atMs, what, holder, hits]) => {
      const claim = { holder, commits: what === 'commit' };
      const { accepted, ...next } = algorithmFor(limit).step(limit, state, NOW_MS + atMs, hits, true, claim);
      state = next.state;
      const [, , , , held, , , , , lapsed] = next.report ?? [];
      return { accepted, charged: state[0] === 0 ? 0 : state[2], held, lapsed, ttlMs: next.ttlMs };
    });
  }

  test('stays charged, until a late commit corrects it', () => {
    const [reserved, , lapsed, late, repeated] = steps('charge', [
      [0, 'reserve', 1, 500],
      [TTL_MS - 1, 'reserve', 2, 1],
      [TTL_MS, 'reserve', 3, 1],
      [TTL_MS + 1, 'commit', 1, 220],
      [TTL_MS + 2, 'commit', 1, 220],
    ]);
    expect(reserved).toMatchObject({ charged: 0, held: 500, lapsed: 0 });
    expect(lapsed).toMatchObject({ charged: 500, held: 2, lapsed: 500 });
    expect(late).toMatchObject({ charged: 220, held: 2, lapsed: 0 });
    expect(repeated).toMatchObject({ charged: 220, lapsed: 0 });
  });

  test('is remembered for the window of the limit, so that waiting does not make it free', () => {
    const [reserved, later] = steps('charge', [
      [0, 'reserve', 1, 500],
      [100 * TTL_MS, 'reserve', 2, 1],
    ]);
    expect(reserved?.ttlMs).toBeGreaterThan(100 * TTL_MS);
    expect(later).toMatchObject({ charged: 500, held: 1, lapsed: 500 });
  });

  test('is not charged to a window that begins after it has lapsed', () => {
    const windowMs = 100_000; // from NOW_MS, a multiple
    const [, next] = steps(
      'charge',
      [
        [0, 'reserve', 1, 500],
        [windowMs, 'reserve', 2, 1],
      ],
      fixedWindowOf(1_000, windowMs),
    );
    expect(next).toMatchObject({ charged: 0, held: 1, lapsed: 500 });
  });

  const othersOf = (windowMs: number): readonly RateLimit[] => [
    slidingWindowLogOf(60, windowMs),
    slidingWindowCounterOf(60, windowMs),
    slidingWindowBucketsOf(60, windowMs),
    tokenBucketOf(60, windowMs),
    leakyBucketOf(60, windowMs, { burst: 60 }),
    fixedWindowOf(60, windowMs, { alignment: 'first_hit' }),
  ];

  test.each(othersOf(TTL_MS / 4))('is charged when it lapses, whenever that is noticed, by $algorithm', (inner) => {
    const [, next] = steps(
      'charge',
      [
        [0, 'reserve', 1, 60],
        [2 * TTL_MS - 1, 'reserve', 2, 60], // after two windows
      ],
      inner,
    );
    expect(next).toMatchObject({ accepted: true, lapsed: 60 });
  });

  test.each(othersOf(TTL_MS / 2))('is only taken back as far as it still counts, by $algorithm', (inner) => {
    const untilMs = 2 * TTL_MS - 2; // the commit is late, and not yet unknown
    const used = Array.from({ length: 30 }, (_, at) => [untilMs - 30 + at, 'commit', 100 + at, 1] as const);
    const [next] = steps(
      'charge',
      [
        [0, 'reserve', 1, 40],
        [TTL_MS, 'reserve', 2, 1],
        [TTL_MS + 1, 'commit', 2, 0],
        ...used,
        [untilMs, 'commit', 1, 0],
        [untilMs + 1, 'reserve', 3, 60 - 28], // 30 are used
      ],
      inner,
    ).slice(-1);
    expect(next).toMatchObject({ accepted: false });
  });

  test('becomes free with on_lapse: free, and a late commit is charged', () => {
    const [, lapsed, late] = steps('free', [
      [0, 'reserve', 1, 500],
      [TTL_MS, 'reserve', 2, 1],
      [TTL_MS + 1, 'commit', 1, 220],
    ]);
    expect(lapsed).toMatchObject({ charged: 0, held: 1, lapsed: 500 });
    expect(late).toMatchObject({ charged: 220, held: 1, lapsed: 0 });
  });
});

test('a refusal names the time when enough reservations have expired, for any expired or settled ones', () => {
  const entries = fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: -5, max: 20 })), {
    maxLength: 12,
  });
  let refused = 0;
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 13 }), fc.integer({ min: 1, max: 30 }), (some, holder, capacity) => {
      const state = stateOf(some);
      const hits = Math.min(6, capacity);
      const { event, freeMs } = reserve(state, capacity, hits, holder);
      if (event !== REFUSED) return;
      refused++;
      expect(freeMs).toBe(slowly(state, capacity, hits, holder));
    }),
    { numRuns: 1_000 },
  );
  expect(refused).toBeGreaterThan(100);
});

describe('beside the maximum number of reservations', () => {
  const row = algorithmFor(fixedWindowOf(1, DAY_MS));

  test.each([1, 2, 500, MAX_RESERVATIONS - 1, MAX_RESERVATIONS])(
    'another one reads each a few times, and tries a few of them, with room for %d',
    (capacity) => {
      let reads = 0;
      const get = (target: State, name: string | symbol): unknown => {
        if (typeof name === 'string' && /^\d+$/.test(name)) reads++;
        return Reflect.get(target, name);
      };
      const step = jest.spyOn(row, 'step');
      expect(reserve(new Proxy(full, { get }), capacity, 1, MAX_RESERVATIONS + 1).accepted).toBe(false);
      expect(reads).toBeLessThanOrEqual(8 * full.length);
      expect(step.mock.calls.length).toBeLessThanOrEqual(15);
      step.mockRestore();
    },
  );

  test('another one is refused in three steps of its counter', () => {
    const { next: before } = reserve(full, 1_000_000, 0, MAX_RESERVATIONS + 1);
    const step = jest.spyOn(row, 'step');
    expect(reserve(before, 1_000_000, 1, MAX_RESERVATIONS + 1).accepted).toBe(false);
    expect(step).toHaveBeenCalledTimes(3);
    step.mockRestore();
  });
});
