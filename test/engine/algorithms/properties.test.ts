import { type Charge, type Decision, MAX_COUNT, NEVER_MS, type State } from '../../../src/engine/algorithms/limit.ts';
import {
  algorithmFor,
  canOwe,
  fullCapacity,
  type Limit,
  namedAlgorithms,
  nominalCapacity,
} from '../../../src/engine/holds/limits.ts';
import type { Reports } from '../../../src/engine/holds/reports.ts';
import { anyLimitOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

interface Call {
  readonly atMs: number;
  readonly hits: number;
}

interface Told extends Decision, Reports {
  readonly state: State;
  readonly ttlMs: number;
  /** The state that a store keeps afterwards. */
  readonly kept: State | undefined;
}

function hit(limit: Limit, state: State | undefined, { atMs, hits }: Call, charged: Charge = true): Told {
  const { step, describe: tell } = algorithmFor(limit);
  const { accepted, state: next, ttlMs, report = next } = step(limit, state, atMs, hits, charged);
  const decision = tell(limit, report, atMs, { hits, accepted, charged });
  return { ...decision, state: next, ttlMs, kept: ttlMs > 0 ? next : undefined };
}

const look = (limit: Limit, state: State | undefined, atMs: number): Told => hit(limit, state, { atMs, hits: 0 });

/** The decisions about consecutive requests, each of which follows the previous one after some ms. */
function tellAll(limit: Limit, state: State | undefined, fromMs: number, followUps: readonly FollowUp[]): Decision[] {
  let atMs = fromMs;
  let kept = state;
  return followUps.map(({ onMs, share, more }) => {
    atMs += onMs;
    const {
      state: _,
      ttlMs: __,
      kept: next,
      holds: ___, // includes the number of slots expired since the counter was last read
      ...decision
    } = hit(limit, kept, { atMs, hits: amount(limit, share, more) });
    kept = next;
    return decision;
  });
}

interface FollowUp {
  readonly onMs: number;
  readonly share: number;
  readonly more: number;
}

/** Tenths of the capacity, plus `more`. */
const amount = (limit: Limit, tenths: number, more: number): number =>
  Math.floor((fullCapacity(limit) * tenths) / 10) + more;

const anyTime = (windowMs: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.constantFrom(0, 0, 1, windowMs - 1, windowMs, windowMs + 1),
    fc.integer({ min: 0, max: 3 * windowMs }),
    fc.integer({ min: 0, max: Math.ceil(windowMs / 20) }),
  );

const anyFollowUps = (limit: Limit): fc.Arbitrary<readonly FollowUp[]> =>
  fc.array(
    fc.record({
      onMs: anyTime(limit.windowMs),
      share: fc.integer({ min: -1, max: 11 }),
      more: fc.integer({ min: 0, max: 2 }),
    }),
    { minLength: 1, maxLength: 6 },
  );

/** A counter after some requests, at the time of the last one. */
interface Moment<L extends Limit = Limit> {
  readonly limit: L;
  readonly state: State | undefined;
  readonly nowMs: number;
}

const START_MS = 1_700_000_000_000;

/** Thirty thousand years, beyond which times are no longer exact to the millisecond. */
const FOREVER_MS = 1e15;

/** A counter after any requests; with `backMs` the clock may step back between them. */
const anyMoment = <L extends Limit>(
  limits: fc.Arbitrary<L>,
  { backwards = false } = {},
): fc.Arbitrary<{ moment: Moment<L>; followUps: readonly FollowUp[]; hits: number }> =>
  limits.chain((limit) =>
    fc
      .record({
        startMs: fc.integer({ min: START_MS, max: START_MS + 40_000_000_000 }),
        calls: anyFollowUps(limit),
        backMs: backwards ? anyTime(limit.windowMs) : fc.constant(0),
        followUps: anyFollowUps(limit),
        share: fc.integer({ min: 0, max: 10 }),
        more: fc.integer({ min: 0, max: 3 }),
      })
      .map(({ startMs, calls, backMs, followUps, share, more }) => {
        let state: State | undefined;
        let nowMs = startMs;
        for (const call of calls) {
          nowMs += call.onMs;
          state = hit(limit, state, { atMs: nowMs, hits: amount(limit, call.share, call.more) }).kept;
        }
        return {
          moment: { limit, state, nowMs: Math.max(nowMs - backMs, START_MS) },
          followUps,
          hits: amount(limit, share, more),
        };
      }),
  );

const RUNS = { numRuns: 100 };

/** Hits of an allocation do not come back with time: see allocation.test.ts. */
const timed = namedAlgorithms.filter((name) => name !== 'allocation');

describe.each(timed)('%s', (name) => {
  const anyLimit: fc.Arbitrary<Limit> = anyLimitOf[name];
  const maxDelayMs = (limit: Limit): number => ('maxDelayMs' in limit ? limit.maxDelayMs : 0);

  test('refuses until the promised moment and accepts then', () => {
    let refusals = 0;
    fc.assert(
      fc.property(anyMoment(anyLimit, { backwards: true }), ({ moment: { limit, state, nowMs }, hits }) => {
        const asked = hit(limit, state, { atMs: nowMs, hits });
        expect(asked.code === 'OK').toBe(asked.retryAfterMs === 0);
        if (asked.code === 'OK' || asked.retryAfterMs === NEVER_MS) return;
        fc.pre(asked.retryAfterMs < FOREVER_MS);
        refusals++;
        expect(asked.retryAfterMs).toBeGreaterThan(0);
        expect(Number.isInteger(asked.retryAfterMs)).toBe(true);
        const retry = (afterMs: number) => hit(limit, asked.state, { atMs: nowMs + afterMs, hits }).code;
        expect(retry(asked.retryAfterMs - 1)).toBe('OVER_LIMIT');
        expect(retry(asked.retryAfterMs)).toBe('OK');
      }),
      { numRuns: 200 },
    );
    expect(refusals).toBeGreaterThan(20);
  });

  test('promises no retry exactly if more is requested than ever fits', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.integer({ min: 1, max: 5 }), ({ moment, hits: some }, more) => {
        const { limit, state, nowMs } = moment;
        const capacity = fullCapacity(limit);
        const never = hit(limit, state, { atMs: nowMs, hits: capacity + more });
        expect(never).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: NEVER_MS });
        for (const windows of [0, 0.5, 1, 2, 3, 100]) {
          const atMs = nowMs + Math.floor(windows * limit.windowMs);
          expect(hit(limit, never.state, { atMs, hits: capacity + more }).code).toBe('OVER_LIMIT');
        }
        const fits = Math.min(some, capacity);
        if (fits > 0) expect(hit(limit, state, { atMs: nowMs, hits: fits }).retryAfterMs).toBeLessThan(NEVER_MS);
      }),
      RUNS,
    );
  });

  test('admits exactly the remaining hits without a flag', () => {
    const anyPrompt = anyLimit.filter((limit) => maxDelayMs(limit) === 0);
    fc.assert(
      fc.property(anyMoment(anyPrompt, { backwards: true }), ({ moment: { limit, state, nowMs } }) => {
        const { limitRemaining, state: looked } = look(limit, state, nowMs);
        const single = limitRemaining <= 50;
        let now = looked;
        for (let left = limitRemaining; left > 0; left -= single ? 1 : left) {
          const next = hit(limit, now, { atMs: nowMs, hits: single ? 1 : left });
          expect(next).toMatchObject({ code: 'OK', soft: false, limitRemaining: single ? left - 1 : 0 });
          now = next.state;
        }
        const further = hit(limit, now, { atMs: nowMs, hits: 1 });
        expect(further.code === 'OVER_LIMIT' || further.soft).toBe(true);
        if (limit.soft === 0) expect(further.code).toBe('OVER_LIMIT');
      }),
      RUNS,
    );
  });

  test('answers alike whether or not it charges, flags exactly what passes beyond the limit, and restores at most what is given back', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit, { backwards: true }), ({ moment: { limit, state, nowMs }, hits }) => {
        const before = look(limit, state, nowMs);
        const asked = hit(limit, state, { atMs: nowMs, hits });
        const tried = hit(limit, state, { atMs: nowMs, hits }, false);
        const back = hit(limit, state, { atMs: nowMs, hits: -hits });
        const isBeyond = hits > 0 && asked.code === 'OK' && limit.soft > 0 && hits > before.limitRemaining;
        expect([before.soft, asked.soft, tried.soft, back.soft]).toEqual([false, isBeyond, false, false]);
        expect([asked.hitsBefore, tried.hitsBefore]).toEqual([before.hitsBefore, before.hitsBefore]);
        expect(tried.code).toBe(asked.code);
        expect(back.limitRemaining).toBeLessThanOrEqual(Math.min(before.limitRemaining + hits, nominalCapacity(limit)));
        expect(back.limitRemaining).toBeGreaterThanOrEqual(before.limitRemaining);
      }),
      RUNS,
    );
  });

  test('is equivalent to a new counter after its reset', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.nat(), ({ moment: { limit, state, nowMs }, followUps }, laterMs) => {
        const { durationUntilResetMs, state: looked } = look(limit, state, nowMs);
        expect(durationUntilResetMs).toBeGreaterThanOrEqual(0);
        fc.pre(durationUntilResetMs < FOREVER_MS);
        for (const fromMs of [nowMs + durationUntilResetMs, nowMs + durationUntilResetMs + laterMs]) {
          expect(tellAll(limit, looked, fromMs, followUps)).toEqual(tellAll(limit, undefined, fromMs, followUps));
        }
      }),
      RUNS,
    );
  });

  test('resets at the earliest moment at which the whole limit is available', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit, { backwards: true }), ({ moment: { limit, state, nowMs } }) => {
        const whole = nominalCapacity(limit);
        fc.pre(whole > 0); // otherwise there is nothing to wait for
        const { durationUntilResetMs: resetMs, state: looked } = look(limit, state, nowMs);
        fc.pre(resetMs < FOREVER_MS);
        expect(look(limit, looked, nowMs + resetMs).limitRemaining).toBe(whole);
        // of the clock's windows callers are told the end, as by envoyproxy/ratelimit, also where nothing is spent
        const isUnspent = 'alignment' in limit && look(limit, looked, nowMs).hitsBefore === 0;
        if (isUnspent && limit.alignment === 'first_hit') expect(resetMs).toBe(0);
        if (resetMs > 0 && !isUnspent)
          expect(look(limit, looked, nowMs + resetMs - 1).limitRemaining).toBeLessThan(whole);
      }),
      RUNS,
    );
  });

  test('has a debt of exactly the hits charged regardless of the limit', () => {
    if (!canOwe(name)) return;
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.integer({ min: 1, max: 100_000 }), ({ moment }, hits) => {
        const { limit, state, nowMs } = moment;
        fc.pre((fullCapacity(limit) + hits) * limit.windowMs < MAX_COUNT);
        const { hitsBefore } = look(limit, state, nowMs);
        const charged = hit(limit, state, { atMs: nowMs, hits }, 'regardless');
        expect(charged.hitsBefore).toBe(hitsBefore);
        expect(charged.code).toBe(hit(limit, state, { atMs: nowMs, hits }).code);
        expect(look(limit, charged.kept, nowMs).hitsBefore).toBe(hitsBefore + hits);
        const back = hit(limit, charged.kept, { atMs: nowMs, hits: -hits });
        expect(look(limit, back.kept, nowMs).hitsBefore).toBe(hitsBefore);
      }),
      RUNS,
    );
  });

  test('may be forgotten after its time to live, and at once if no state is left', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.nat(), ({ moment: { limit, state, nowMs }, followUps, hits }, laterMs) => {
        const spent = hit(limit, state, { atMs: nowMs, hits });
        fc.pre(spent.ttlMs < FOREVER_MS);
        for (const fromMs of [nowMs + Math.max(spent.ttlMs, 0), nowMs + Math.max(spent.ttlMs, 0) + laterMs])
          expect(tellAll(limit, spent.state, fromMs, followUps)).toEqual(tellAll(limit, undefined, fromMs, followUps));
        const emptied = hit(limit, spent.kept, { atMs: nowMs, hits: -MAX_COUNT });
        expect(emptied).toMatchObject({ code: 'OK', limitRemaining: nominalCapacity(limit) });
        expect(emptied.ttlMs).toBeLessThanOrEqual(0); // never beyond full
        expect(tellAll(limit, emptied.state, nowMs, followUps)).toEqual(tellAll(limit, undefined, nowMs, followUps));
      }),
      RUNS,
    );
  });

  test('changes nothing if it only peeks, or does not charge', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.nat(), ({ moment, followUps, hits }, laterMs) => {
        const { limit, state, nowMs } = moment;
        const untouched = [0, laterMs].map((ms) => tellAll(limit, state, nowMs + ms, followUps));
        const then = (told: Told) => [0, laterMs].map((ms) => tellAll(limit, told.kept, nowMs + ms, followUps));
        expect(then(look(limit, state, nowMs))).toEqual(untouched);
        for (const some of [hits, -hits, 0, MAX_COUNT, -MAX_COUNT])
          expect(then(hit(limit, state, { atMs: nowMs, hits: some }, false))).toEqual(untouched);
      }),
      RUNS,
    );
  });

  test('neither gains nor forgets anything when its clock steps back and on again', () => {
    const anyBack = fc.integer({ min: 1, max: 100_000_000_000 });
    fc.assert(
      fc.property(anyMoment(anyLimit), anyBack, ({ moment: { limit, state, nowMs }, followUps }, backMs) => {
        const known = hit(limit, state, { atMs: nowMs, hits: 1 }).kept;
        if (!known) return; // forgotten: nothing to keep
        for (const earlierMs of [nowMs - 1, nowMs - (backMs % limit.windowMs), nowMs - backMs]) {
          const back = look(limit, known, earlierMs);
          expect(back.ttlMs).toBeGreaterThanOrEqual(nowMs - earlierMs);
          expect(tellAll(limit, back.state, nowMs, followUps)).toEqual(tellAll(limit, known, nowMs, followUps));
        }
      }),
      RUNS,
    );
  });

  test('undoes hits that were just spent', () => {
    if (name === 'in_flight') return; // without an id the oldest slots are released: see in-flight.test.ts
    fc.assert(
      fc.property(anyMoment(anyLimit), ({ moment: { limit, state, nowMs }, followUps, hits }) => {
        const spent = hit(limit, state, { atMs: nowMs, hits });
        if (spent.code === 'OVER_LIMIT') return;
        const back = hit(limit, spent.kept, { atMs: nowMs, hits: -hits });
        expect(back.code).toBe('OK');
        expect(tellAll(limit, back.kept, nowMs, followUps)).toEqual(tellAll(limit, state, nowMs, followUps));
      }),
      RUNS,
    );
  });

  test('refunds many hits at once like one by one', () => {
    fc.assert(
      fc.property(anyMoment(anyLimit), fc.integer({ min: 1, max: 30 }), ({ moment, followUps }, many) => {
        const { limit, state, nowMs } = moment;
        let single = state;
        for (let given = 0; given < many; given++) single = hit(limit, single, { atMs: nowMs, hits: -1 }).kept;
        const whole = hit(limit, state, { atMs: nowMs, hits: -many }).kept;
        expect(tellAll(limit, whole, nowMs, followUps)).toEqual(tellAll(limit, single, nowMs, followUps));
      }),
      RUNS,
    );
  });
});
