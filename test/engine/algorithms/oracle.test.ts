import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor, fullCapacity, type Limit } from '../../../src/engine/holds/limits.ts';
import type { CalendarUnit } from '../../../src/engine/rules/time/calendar.ts';
import { anyLimitOf, calendarWindowOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import {
  bucket,
  fixedWindow,
  type Hits,
  type Oracle,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
} from './oracles.ts';

/** A move of the clock: by some ms, by tenths of a window, or to a boundary of the window or a part, or close to it. */
type Move =
  | { readonly byMs: number }
  | { readonly tenths: number; readonly besideMs: number }
  | { readonly parts: number; readonly on: number; readonly besideMs: number };

/** A number of hits, or tenths of the capacity and a few more. */
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

/** From 2010 to 2030: Brazil had daylight saving time until 2019, the other zones that change clocks still do. */
const anyStartMs = fc.integer({ min: Date.UTC(2010), max: Date.UTC(2030) });

function moved(nowMs: number, { windowMs }: Limit, move: Move): number {
  if ('byMs' in move) return nowMs + move.byMs;
  if ('tenths' in move) return Math.max(nowMs + Math.floor((windowMs * move.tenths) / 10) + move.besideMs, nowMs);
  const partMs = Math.max(Math.floor(windowMs / move.parts), 1);
  return Math.max(nowMs - (nowMs % partMs) + move.on * partMs + move.besideMs, nowMs);
}

function amountOf(limit: Limit, amount: Amount, min: number): number {
  const hits = 'hits' in amount ? amount.hits : Math.floor((fullCapacity(limit) * amount.tenths) / 10) + amount.more;
  return Math.max(hits, min);
}

/**
 * Runs the schedule with the algorithm as a store does, which drops states that may be forgotten. The oracle must
 * agree.
 */
function replay(limit: Limit, startMs: number, calls: readonly Call[], least: number, oracle: Oracle<never>) {
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

/** Every run of consecutive admitted requests: its start, its end, and its hits. */
function* spans(passed: readonly Hits[]): Generator<{ firstMs: number; lastMs: number; hits: bigint }> {
  for (const [at, { atMs: firstMs }] of passed.entries()) {
    let hits = 0n;
    for (const one of passed.slice(at)) {
      hits += BigInt(one.hits);
      yield { firstMs, lastMs: one.atMs, hits };
    }
  }
}

const RUNS = { numRuns: 300 };
const GIVES_BACK = -5; // tenths
const TAKES_ONLY = 0;

describe('a fixed window accepts according to its definition', () => {
  const check = (
    limit: FixedWindowLimit,
    startMs: number,
    calls: readonly Call[],
    windowOf: (atMs: number) => unknown,
  ) => replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, fixedWindow(limit, windowOf));

  const anyAligned = anyLimitOf.fixed_window.filter(({ alignment }) => typeof alignment === 'string');
  test('aligned to the epoch or to the first hit', () => {
    fc.assert(
      fc.property(anyAligned, anyStartMs, anyCalls(GIVES_BACK), (limit, startMs, calls) => {
        check(limit, startMs, calls, (atMs) => Math.floor(atMs / limit.windowMs));
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
        { numRuns: 80 },
      );
    },
  );
});

/**
 * No hours for a zone whose clock changes by half an hour: no definition says to which window the other half belongs.
 */
const wholeHours = (timeZone: string): CalendarUnit[] => (timeZone === 'Australia/Lord_Howe' ? [] : ['HOUR']);

test.each<readonly [string, fc.Arbitrary<readonly [Limit, Oracle<never>]>]>([
  ['log', anyLimitOf.sliding_window_log.map((limit) => [limit, slidingWindowLog(limit)])],
  ['counter', anyLimitOf.sliding_window_counter.map((limit) => [limit, slidingWindowCounter(limit)])],
  ['in parts', anyLimitOf.sliding_window_buckets.map((limit) => [limit, slidingWindowBuckets(limit)])],
])('a sliding window (%s) accepts according to its definition', (_, anyWindow) => {
  fc.assert(
    fc.property(anyWindow, anyStartMs, anyCalls(GIVES_BACK), ([limit, oracle], startMs, calls) => {
      replay(limit, startMs, calls, -Number.MAX_SAFE_INTEGER, oracle);
    }),
    RUNS,
  );
});

test.each(['token_bucket', 'leaky_bucket'] as const)(
  'a %s accepts and delays according to its definition, never more than its size and what is refilled',
  (name) => {
    fc.assert(
      fc.property(anyLimitOf[name], anyStartMs, anyCalls(TAKES_ONLY), (limit, startMs, calls) => {
        const { windowMs, requestsPerUnit } = limit;
        const tickMs = 'refill' in limit && limit.refill === 'interval' ? windowMs : 1;
        const gone = replay(limit, startMs, calls, 0, bucket(limit)).map(({ atMs, hits, delayMs }) => {
          return { atMs: atMs + delayMs, hits }; // delayed until then
        });
        for (const { firstMs, lastMs, hits } of spans(gone)) {
          const ticks = Math.floor(lastMs / tickMs) - Math.floor(firstMs / tickMs);
          const came = BigInt(ticks + (limit.maxDelayMs > 0 ? 1 : 0)) * BigInt(tickMs) * BigInt(requestsPerUnit); // a wait is rounded up to a tick
          if (hits * BigInt(windowMs) > BigInt(fullCapacity(limit)) * BigInt(windowMs) + came)
            throw new Error(`${hits} hits pass from ${firstMs} to ${lastMs}`);
        }
      }),
      RUNS,
    );
  },
);
