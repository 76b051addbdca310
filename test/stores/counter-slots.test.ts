import { createCounterSlots } from '../../src/stores/counter-slots.ts';
import type { CounterKey } from '../../src/stores/key.ts';

const key = 'key' as CounterKey; // any text names a counter as well as another

describe('slots of counters', () => {
  test('that are released are taken again before new ones, and remember nothing', () => {
    const slots = createCounterSlots();
    const taken = Array.from({ length: 5 }, () => slots.take(key));
    for (const slot of taken) {
      slots.keep(slot, [1, 2, 3, 4], 5);
      slots.mark(slot, true);
    }
    for (const slot of taken) slots.release(slot);
    expect(taken.map((slot) => slots.keyOf(slot))).toEqual(taken.map(() => undefined));
    const again = taken.map(() => slots.take(key));
    expect(again.toSorted()).toEqual(taken);
    expect(again.map((slot) => slots.isMarked(slot))).toEqual(again.map(() => false));
    expect(slots.end()).toBe(5);
    expect(slots.take(key)).toBe(5);
  });

  test.each([0, 1, 2, 3, 4, 10])('keep a state of %i numbers as it was', (length) => {
    const slots = createCounterSlots();
    const slot = slots.take(key);
    slots.keep(slot, [9, 9, 9, 9, 9], 0);
    const state = Array.from({ length }, (_, at) => 1_700_000_000_000 + at);
    const before = [...state];
    slots.keep(slot, state, Number.MAX_SAFE_INTEGER);
    state.fill(0);
    expect(slots.stateOf(slot)).toEqual(before);
    expect(slots.expiresAtMs(slot)).toBe(Number.MAX_SAFE_INTEGER);
  });
});
