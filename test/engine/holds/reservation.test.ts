import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import { freeAtMs, hitsAt, MAX_RESERVATIONS, onHold } from '../../../src/engine/holds/reservation.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const NOW_MS = 1_000_000;
const SIZE = 4;

/** An ordered list whose entries have these hits and expire this long from now. */
const listOf = (entries: readonly (readonly [hits: number, leftMs: number])[]): State =>
  entries
    .toSorted(([, one], [, other]) => one - other)
    .flatMap(([hits, leftMs], at) => [at + 1, hits, NOW_MS + leftMs, NOW_MS - 10]);

const full = listOf(Array.from({ length: MAX_RESERVATIONS }, (_, at) => [1, 1 + at] as const));

/** The same list, which counts reads of its numbers. */
function counted(list: State): { readonly list: State; reads(): number } {
  let reads = 0;
  const get = (target: State, name: string | symbol): unknown => {
    if (typeof name === 'string' && /^\d+$/.test(name)) reads++;
    return Reflect.get(target, name);
  };
  return { list: new Proxy(list, { get }), reads: () => reads };
}

describe('when enough reservations have expired', () => {
  const moment = { nowMs: NOW_MS, startMs: 0 };

  /** Adds entries one after the other. */
  function slowly(list: State, own: number | undefined, room: number): number {
    let left = onHold({ numbers: list, first: 0 }, moment, own).hits;
    for (let at = 0; at < list.length; at += SIZE) {
      if (at === own || hitsAt(list, at, moment) === 0) continue;
      left -= hitsAt(list, at, moment);
      if (left <= room) return list[at + 2] ?? 0;
    }
    return 0;
  }

  test('is the same time as by adding them one by one, for any expired or settled ones', () => {
    const entries = fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: -5, max: 20 })), {
      maxLength: 12,
    });
    const own = fc.option(fc.nat({ max: 11 }), { nil: undefined });
    fc.assert(
      fc.property(entries, own, fc.integer({ min: -1, max: 30 }), (some, place, room) => {
        const list = listOf(some);
        const at = place !== undefined && place < some.length ? place * SIZE : undefined;
        expect(freeAtMs({ numbers: list, first: 0 }, moment, at, (held) => held <= room)).toBe(slowly(list, at, room));
      }),
    );
  });

  test.each([-1, 0, 1, 500, MAX_RESERVATIONS - 1, MAX_RESERVATIONS])(
    'each of a thousand is read at most three times, with room for %d',
    (room) => {
      const { list, reads } = counted(full);
      let asked = 0;
      freeAtMs({ numbers: list, first: 0 }, moment, undefined, (held) => {
        asked++;
        return held <= room;
      });
      expect(reads()).toBeLessThanOrEqual(3 * full.length);
      expect(asked).toBeLessThanOrEqual(12);
    },
  );
});

describe('a limit with the maximum number of reservations', () => {
  const inner = fixedWindowOf(1_000_000, 86_400_000);
  const limit = reservationOf(inner);
  const claim = { holder: MAX_RESERVATIONS + 1 };
  const counter = algorithmFor(inner);
  const state: State = [2, 0, 0, ...full];

  test('refuses another one in three steps of its counter, and keeps its state without a copy', () => {
    const step = jest.spyOn(counter, 'step');
    const before = algorithmFor(limit).step(limit, state, NOW_MS, 0, false, claim).state;
    step.mockClear();
    const refused = algorithmFor(limit).step(limit, before, NOW_MS, 1, true, claim);
    expect(refused.accepted).toBe(false);
    expect(step).toHaveBeenCalledTimes(3);
    expect(refused.state).toBe(before);
    step.mockRestore();
  });
});
