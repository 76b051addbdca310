import { algorithmFor } from '../../src/algorithms/index.ts';
import {
  capacityOf,
  type FixedWindowLimit,
  type LeakyBucketLimit,
  type Limit,
  type SlidingWindowBucketsLimit,
  type SlidingWindowCounterLimit,
  type SlidingWindowLogLimit,
  type State,
  type TokenBucketLimit,
} from '../../src/algorithms/limit.ts';
import type { CalendarUnit } from '../../src/rules/calendar.ts';
import { anyLimitOf, calendarWindowOf } from '../helpers/limits.ts';
import fc from '../helpers/property.ts';

/** What is said of a request. */
interface Said {
  readonly accepted: boolean;
  readonly delayMs: number;
}

/** Says what becomes of requests by an algorithm's definition alone, in whole numbers of any size; it remembers them all. */
type Oracle = (atMs: number, hits: number) => Said;

interface Hits {
  readonly atMs: number;
  readonly hits: number;
}

const passes = (accepted: boolean): Said => ({ accepted, delayMs: 0 });
const total = (list: readonly Hits[]): bigint => list.reduce((sum, { hits }) => sum + BigInt(hits), 0n);

/** What a request adds to a list of hits; a negative one takes the newest off. */
function add(list: readonly Hits[], atMs: number, hits: number): Hits[] {
  if (hits >= 0) return [...list, { atMs, hits }];
  let left = -hits;
  return list
    .toReversed()
    .flatMap((one) => {
      const taken = Math.min(one.hits, left);
      left -= taken;
      return one.hits > taken ? [{ ...one, hits: one.hits - taken }] : [];
    })
    .toReversed();
}

/** All hits that were asked for since the window began. */
function fixedWindow(limit: FixedWindowLimit, windowOf: (atMs: number) => unknown): Oracle {
  let asked: Hits[] = [];
  return (atMs, hits) => {
    const [first] = asked;
    const over =
      limit.alignment === 'first_hit'
        ? first && atMs >= first.atMs + limit.windowMs
        : first && windowOf(first.atMs) !== windowOf(atMs);
    if (over) asked = [];
    asked = add(asked, atMs, hits).filter((one) => one.hits > 0);
    return passes(hits < 0 || total(asked) <= capacityOf(limit));
  };
}

/** Accepted hits that are younger than the window; where refused ones count, the newest of all, as many as the limit. */
function slidingWindowLog(limit: SlidingWindowLogLimit): Oracle {
  let known: Hits[] = [];
  return (atMs, hits) => {
    known = known.filter((one) => atMs - one.atMs < limit.windowMs);
    const accepted = hits < 0 || total(known) + BigInt(hits || 1) <= capacityOf(limit);
    if (accepted || limit.countDenied) known = add(known, atMs, hits);
    for (let excess = Number(total(known)) - capacityOf(limit); excess > 0; ) {
      const [oldest = { atMs, hits: 0 }, ...newer] = known;
      known = oldest.hits > excess ? [{ ...oldest, hits: oldest.hits - excess }, ...newer] : newer;
      excess -= oldest.hits;
    }
    return passes(accepted);
  };
}

/** Accepted hits of this window, and of those of the one before the fraction that the sliding window still covers. */
function slidingWindowCounter(limit: SlidingWindowCounterLimit): Oracle {
  const { windowMs, rounding } = limit;
  let known: Hits[] = [];
  return (atMs, hits) => {
    const windowsAgo = (one: Hits) => Math.floor(atMs / windowMs) - Math.floor(one.atMs / windowMs);
    known = known.filter((one) => windowsAgo(one) <= 1);
    const left = BigInt(windowMs - (atMs % windowMs));
    const weighted = total(known.filter((one) => windowsAgo(one) === 1)) * left;
    const covered = (weighted + (rounding === 'up' ? BigInt(windowMs) - 1n : 0n)) / BigInt(windowMs);
    const used = total(known.filter((one) => windowsAgo(one) === 0)) + covered;
    const accepted = hits < 0 || used + BigInt(hits || 1) <= capacityOf(limit);
    if (accepted) known = add(known, atMs, hits);
    return passes(accepted);
  };
}

/** Accepted hits of the current part and of the n parts before it. */
function slidingWindowBuckets(limit: SlidingWindowBucketsLimit): Oracle {
  const partMs = limit.windowMs / limit.buckets;
  let known: Hits[] = [];
  return (atMs, hits) => {
    known = known.filter((one) => Math.floor(atMs / partMs) - Math.floor(one.atMs / partMs) <= limit.buckets);
    const accepted = hits < 0 || total(known) + BigInt(hits || 1) <= capacityOf(limit);
    if (accepted) known = add(known, atMs, hits);
    return passes(accepted);
  };
}

/**
 * A bucket of tokens and a bucket that leaks both let pass what keeps to one line: since any moment, no more than fit in
 * the bucket and came (or leaked) since then. What is missing comes later: the request waits for it.
 */
function bucket(limit: TokenBucketLimit | LeakyBucketLimit): Oracle {
  const { windowMs, requestsPerUnit, maxDelayMs } = limit;
  const tickMs = 'refill' in limit && limit.refill === 'interval' ? windowMs : 1;
  const ticks = (atMs: number) => BigInt(Math.floor(atMs / tickMs));
  const perTick = BigInt(requestsPerUnit) * BigInt(tickMs); // in tokens times windowMs
  const room = BigInt(capacityOf(limit));
  const known: Hits[] = [];
  return (atMs, hits) => {
    const asked = hits || 1;
    const all = [...known, { atMs, hits: asked }];
    let missing = 0n;
    for (const [at, since] of all.entries()) {
      const came = (ticks(atMs) - ticks(since.atMs)) * perTick;
      const over = (total(all.slice(at)) - room) * BigInt(windowMs) - came;
      if (over > missing) missing = over;
    }
    const waitTicks = missing > 0n ? (missing + perTick - 1n) / perTick : 0n;
    const delayMs = waitTicks > 0n ? Number((ticks(atMs) + waitTicks) * BigInt(tickMs)) - atMs : 0;
    const accepted = asked <= room && delayMs <= maxDelayMs;
    if (accepted && hits > 0) known.push({ atMs, hits });
    return { accepted, delayMs: accepted && hits > 0 ? delayMs : 0 };
  };
}

/** Where the clock goes: on by some ms, by tenths of a window, or to a boundary of the window or a part, and a little beside it. */
type Move =
  | { readonly byMs: number }
  | { readonly tenths: number; readonly besideMs: number }
  | { readonly parts: number; readonly on: number; readonly besideMs: number };

/** So many, or tenths of what the limit admits and a few more. */
type Amount = { readonly hits: number } | { readonly tenths: number; readonly more: number };

interface Call {
  readonly move: Move;
  readonly amount: Amount;
}

const anyMove: fc.Arbitrary<Move> = fc.oneof(
  fc.record({ byMs: fc.constantFrom(0, 0, 1, 2, 10) }),
  fc.record({ tenths: fc.integer({ min: 0, max: 11 }), besideMs: fc.integer({ min: -1, max: 1 }) }),
  fc.record({
    parts: fc.constantFrom(1, 1, 2, 5, 10),
    on: fc.constantFrom(1, 1, 2, 3),
    besideMs: fc.integer({ min: -1, max: 1 }),
  }),
);

const anyAmount = (min: number): fc.Arbitrary<Amount> =>
  fc.oneof(
    fc.record({ hits: fc.constantFrom(0, 1, 1, 1, 2, 3) }),
    fc.record({ tenths: fc.integer({ min, max: 11 }), more: fc.integer({ min: -1, max: 1 }) }),
  );

const anyCalls = (minTenths: number): fc.Arbitrary<readonly Call[]> =>
  fc.array(fc.record({ move: anyMove, amount: anyAmount(minTenths) }), { minLength: 1, maxLength: 30 });

/** From 2010 to 2030: Brazil had summer time until 2019, the other zones that change the clock do it still. */
const anyStartMs = fc.integer({ min: Date.UTC(2010), max: Date.UTC(2030) });

function moved(nowMs: number, { windowMs }: Limit, move: Move): number {
  if ('byMs' in move) return nowMs + move.byMs;
  if ('tenths' in move) return Math.max(nowMs + Math.floor((windowMs * move.tenths) / 10) + move.besideMs, nowMs);
  const partMs = Math.max(Math.floor(windowMs / move.parts), 1);
  return Math.max(nowMs - (nowMs % partMs) + move.on * partMs + move.besideMs, nowMs);
}

function amountOf(limit: Limit, amount: Amount, min: number): number {
  const hits = 'hits' in amount ? amount.hits : Math.floor((capacityOf(limit) * amount.tenths) / 10) + amount.more;
  return Math.max(hits, min);
}

/** Runs the schedule past the algorithm, as a store would: what need not be remembered is forgotten. Oracle and it must agree. */
function replay(limit: Limit, startMs: number, calls: readonly Call[], least: number, oracle: Oracle) {
  const { step, describe: tell } = algorithmFor(limit);
  const passed: (Hits & { readonly delayMs: number })[] = [];
  let state: State | undefined;
  let nowMs = startMs;
  for (const [call, { move, amount }] of calls.entries()) {
    nowMs = moved(nowMs, limit, move);
    const hits = amountOf(limit, amount, least);
    const next = step(limit, state, nowMs, hits, true);
    const { accepted } = next;
    const { delayMs } = tell(limit, next.report ?? next.state, nowMs, { hits, accepted, charged: true });
    expect({ call, atMs: nowMs, hits, accepted, delayMs }).toEqual({ call, atMs: nowMs, hits, ...oracle(nowMs, hits) });
    state = next.ttlMs > 0 ? next.state : undefined;
    if (accepted && hits > 0) passed.push({ atMs: nowMs, hits, delayMs });
  }
  return passed;
}

/** Every run of consecutive requests that passed: from which to which moment, and how many hits. */
function* spans(passed: readonly Hits[]): Generator<{ firstMs: number; lastMs: number; hits: bigint }> {
  for (const [at, { atMs: firstMs }] of passed.entries()) {
    let hits = 0n;
    for (const one of passed.slice(at)) {
      hits += BigInt(one.hits);
      yield { firstMs, lastMs: one.atMs, hits };
    }
  }
}

const RUNS = { numRuns: 700 };
const GIVES_BACK = -5; // tenths
const TAKES_ONLY = 0;

describe('a fixed window accepts as its definition says', () => {
  const check = (
    limit: FixedWindowLimit,
    startMs: number,
    calls: readonly Call[],
    windowOf: (atMs: number) => unknown,
  ) => replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, fixedWindow(limit, windowOf));

  const anyAligned = anyLimitOf.fixed_window.filter(({ alignment }) => typeof alignment === 'string');
  test('from the epoch, or from the first hit', () => {
    fc.assert(
      fc.property(anyAligned, anyStartMs, anyCalls(GIVES_BACK), (limit, startMs, calls) => {
        check(limit, startMs, calls, (atMs) => Math.floor(atMs / limit.windowMs));
      }),
      RUNS,
    );
  });

  test('never above the limit within one of its windows', () => {
    fc.assert(
      fc.property(anyAligned, anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        const windowOf = (atMs: number) => Math.floor(atMs / limit.windowMs);
        const passed = replay(limit, startMs, calls, 0, fixedWindow(limit, windowOf));
        for (const { firstMs, lastMs, hits } of spans(passed)) {
          const within = limit.alignment === 'epoch' && windowOf(firstMs) === windowOf(lastMs);
          if (within) expect(hits).toBeLessThanOrEqual(capacityOf(limit));
          if (lastMs - firstMs < limit.windowMs) expect(hits).toBeLessThanOrEqual(2 * capacityOf(limit)); // across a boundary
        }
      }),
      RUNS,
    );
  });

  test.each(['UTC', 'Europe/Berlin', 'America/Sao_Paulo', 'Asia/Kolkata', 'Australia/Lord_Howe'])(
    'of the calendar in %s',
    (timeZone) => {
      const formatter = new Intl.DateTimeFormat('en', {
        timeZone,
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      });
      const local = (atMs: number) => {
        const parts = Object.fromEntries(formatter.formatToParts(atMs).map(({ type, value }) => [type, Number(value)]));
        const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts;
        return { year, month, day, atMs: Date.UTC(year, month - 1, day, hour, minute, second) };
      };
      const windowOf: { readonly [U in CalendarUnit]: (atMs: number) => string } = {
        HOUR: (atMs) => {
          const offsetMs = local(atMs).atMs - Math.floor(atMs / 1_000) * 1_000;
          return `${Math.floor((atMs + offsetMs) / 3_600_000)} ${offsetMs}`;
        },
        DAY: (atMs) => `${local(atMs).year}-${local(atMs).month}-${local(atMs).day}`,
        WEEK: (atMs) => String(Math.floor((local(atMs).atMs / 86_400_000 + 3) / 7)), // the epoch was a Thursday
        MONTH: (atMs) => `${local(atMs).year}-${local(atMs).month}`,
        YEAR: (atMs) => String(local(atMs).year),
      };
      const anyUnit = fc.constantFrom<CalendarUnit>('DAY', 'WEEK', 'MONTH', 'YEAR', ...wholeHours(timeZone));
      fc.assert(
        fc.property(anyUnit, fc.nat({ max: 20 }), anyStartMs, anyCalls(GIVES_BACK), (unit, most, startMs, calls) => {
          check(calendarWindowOf(most, unit, timeZone), startMs, calls, windowOf[unit]);
        }),
        { numRuns: 700 },
      );
    },
  );
});

/** Hours are cut short where the clock changes by half of one: which window the rest belongs to is nobody's definition. */
const wholeHours = (timeZone: string): CalendarUnit[] => (timeZone === 'Australia/Lord_Howe' ? [] : ['HOUR']);

describe('a sliding window log', () => {
  test('accepts as its definition says', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_log, anyStartMs, anyCalls(GIVES_BACK), (limit, startMs, calls) => {
        replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, slidingWindowLog(limit));
      }),
      RUNS,
    );
  });

  test('never lets more than the limit pass in any window', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_log, anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        for (const { firstMs, lastMs, hits } of spans(replay(limit, startMs, calls, 0, slidingWindowLog(limit))))
          if (lastMs - firstMs < limit.windowMs) expect(hits).toBeLessThanOrEqual(capacityOf(limit));
      }),
      RUNS,
    );
  });
});

describe('a sliding window counter', () => {
  test('accepts as its definition says', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_counter, anyStartMs, anyCalls(GIVES_BACK), (limit, startMs, calls) => {
        const oracle = slidingWindowCounter(limit);
        replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, oracle);
      }),
      RUNS,
    );
  });

  test('never lets more than the limit pass between two boundaries, nor more than twice that in any window', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_counter, anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        const { windowMs } = limit;
        for (const { firstMs, lastMs, hits } of spans(replay(limit, startMs, calls, 0, slidingWindowCounter(limit)))) {
          const within = Math.floor(firstMs / windowMs) === Math.floor(lastMs / windowMs);
          if (within) expect(hits).toBeLessThanOrEqual(capacityOf(limit));
          if (lastMs - firstMs < windowMs) expect(hits).toBeLessThanOrEqual(2 * capacityOf(limit));
        }
      }),
      RUNS,
    );
  });
});

describe('a sliding window in parts', () => {
  test('accepts as its definition says', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_buckets, anyStartMs, anyCalls(GIVES_BACK), (limit, startMs, calls) => {
        replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, slidingWindowBuckets(limit));
      }),
      RUNS,
    );
  });

  test('never lets more than the limit pass in any window', () => {
    fc.assert(
      fc.property(anyLimitOf.sliding_window_buckets, anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        for (const { firstMs, lastMs, hits } of spans(replay(limit, startMs, calls, 0, slidingWindowBuckets(limit))))
          if (lastMs - firstMs < limit.windowMs) expect(hits).toBeLessThanOrEqual(capacityOf(limit));
      }),
      RUNS,
    );
  });
});

describe.each(['token_bucket', 'leaky_bucket'] as const)('a %s', (name) => {
  test('accepts, and holds, as its definition says', () => {
    fc.assert(
      fc.property(anyLimitOf[name], anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        replay(limit, startMs, calls, 0, bucket(limit));
      }),
      RUNS,
    );
  });

  test('never lets more go its way, in any time, than it holds and what comes in that time', () => {
    fc.assert(
      fc.property(anyLimitOf[name], anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        const { windowMs, requestsPerUnit } = limit;
        const tickMs = 'refill' in limit && limit.refill === 'interval' ? windowMs : 1;
        const gone = replay(limit, startMs, calls, 0, bucket(limit)).map(({ atMs, hits, delayMs }) => {
          return { atMs: atMs + delayMs, hits }; // held until then
        });
        for (const { firstMs, lastMs, hits } of spans(gone)) {
          const ticks = Math.floor(lastMs / tickMs) - Math.floor(firstMs / tickMs);
          const came = BigInt(ticks + (limit.maxDelayMs > 0 ? 1 : 0)) * BigInt(tickMs) * BigInt(requestsPerUnit); // a wait is rounded up to a tick
          expect(hits * BigInt(windowMs)).toBeLessThanOrEqual(BigInt(capacityOf(limit)) * BigInt(windowMs) + came);
        }
      }),
      RUNS,
    );
  });
});
