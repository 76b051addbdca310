import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';
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

  test('another one is refused in three steps of its counter, and keeps the state without a copy', () => {
    const { next: before } = reserve(full, 1_000_000, 0, MAX_RESERVATIONS + 1);
    const step = jest.spyOn(row, 'step');
    const { accepted, next } = reserve(before, 1_000_000, 1, MAX_RESERVATIONS + 1);
    expect(accepted).toBe(false);
    expect(step).toHaveBeenCalledTimes(3);
    expect(next).toBe(before);
    step.mockRestore();
  });
});
