import fc from 'fast-check';
import { fixedWindow } from '../../src/algorithms/fixed-window.ts';
import type { Decision, FixedWindowLimit, State } from '../../src/algorithms/limit.ts';
import { anyRequestsPerUnit, anyWindowMs, fixedWindowOf } from '../helpers/limits.ts';

interface Call {
  readonly atMs: number;
  readonly hits: number;
}

function hit(limit: FixedWindowLimit, state: State | undefined, { atMs, hits }: Call): Decision & { state: State } {
  const step = fixedWindow.step(limit, state, atMs, hits);
  return { ...fixedWindow.describe(limit, step.state, atMs, hits, step.accepted), state: step.state };
}

/** Calls at any moments of one window, in any order of time. */
const anyWindowful = (maxHits: number) =>
  fc.record({ windowMs: anyWindowMs, window: fc.integer({ min: 50, max: 60 }) }).chain(({ windowMs, window }) =>
    fc.record({
      windowMs: fc.constant(windowMs),
      calls: fc.array(
        fc.record({
          atMs: fc.integer({ min: window * windowMs, max: (window + 1) * windowMs - 1 }),
          hits: fc.integer({ min: 0, max: maxHits }),
        }),
        { maxLength: 30 },
      ),
    }),
  );

describe('a fixed window', () => {
  test('never accepts more hits than its limit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60 }), anyWindowful(20), (requestsPerUnit, { windowMs, calls }) => {
        const limit = fixedWindowOf(requestsPerUnit, windowMs);
        let state: State | undefined;
        let accepted = 0;
        for (const call of calls) {
          const decision = hit(limit, state, call);
          state = decision.state;
          if (decision.code === 'OK') accepted += call.hits;
        }
        expect(accepted).toBeLessThanOrEqual(requestsPerUnit);
      }),
      { numRuns: 500 },
    );
  });

  test('refuses until the promised moment and accepts then', () => {
    const anyRefusal = anyRequestsPerUnit
      .filter((requestsPerUnit) => requestsPerUnit > 0)
      .chain((requestsPerUnit) =>
        fc.record({
          limit: anyWindowMs.map((windowMs) => fixedWindowOf(requestsPerUnit, windowMs)),
          hits: fc.integer({ min: 1, max: requestsPerUnit }),
          tooMany: fc.integer({ min: 1, max: 1_000 }),
          spentAtMs: fc.integer({ min: 1e12, max: 2e12 }),
          laterMs: fc.integer({ min: -100_000, max: 100_000 }),
        }),
      );
    fc.assert(
      fc.property(anyRefusal, ({ limit, hits, tooMany, spentAtMs, laterMs }) => {
        const spent = hit(limit, undefined, { atMs: spentAtMs, hits: limit.requestsPerUnit - hits + tooMany });
        const refusedAtMs = Math.min(spentAtMs + laterMs, spentAtMs + spent.durationUntilResetMs - 1);
        const refused = hit(limit, spent.state, { atMs: refusedAtMs, hits });
        const retry = (afterMs: number) => hit(limit, refused.state, { atMs: refusedAtMs + afterMs, hits }).code;
        expect(refused.code).toBe('OVER_LIMIT');
        expect(retry(refused.retryAfterMs - 1)).toBe('OVER_LIMIT');
        expect(retry(refused.retryAfterMs)).toBe('OK');
      }),
      { numRuns: 500 },
    );
  });

  test('lets exactly as many single hits pass as it says remain', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60 }), anyWindowful(20), (requestsPerUnit, { windowMs, calls }) => {
        const limit = fixedWindowOf(requestsPerUnit, windowMs);
        let last: ReturnType<typeof hit> | undefined;
        for (const call of calls) last = hit(limit, last?.state, call);
        fc.pre(last !== undefined);
        const atMs = calls.at(-1)?.atMs ?? 0;
        let state = last?.state;
        for (let left = last?.limitRemaining ?? 0; left > 0; left--) {
          const next = hit(limit, state, { atMs, hits: 1 });
          expect(next).toMatchObject({ code: 'OK', limitRemaining: left - 1 });
          state = next.state;
        }
        expect(hit(limit, state, { atMs, hits: 1 }).code).toBe('OVER_LIMIT');
      }),
      { numRuns: 500 },
    );
  });
});
