import type { CounterKey } from '../../../../src/engine/backends/key.ts';
import { CounterSlots } from '../../../../src/engine/backends/memory/counter-slots.ts';

const keyOf = (name: string | number) => `key ${name}` as CounterKey; // any text will do

/** The contents of each slot, in order. */
const contents = (slots: CounterSlots) =>
  Array.from({ length: slots.size }, (_, slot) => ({
    key: slots.keyAt(slot),
    state: slots.stateAt(slot),
    expiresAtMs: slots.expiresAtMs(slot),
    isMarked: slots.isMarked(slot),
  }));

describe('slots of counters', () => {
  test('have no gaps, since the last counter moves with its contents into the slot of a removed one', () => {
    const slots = new CounterSlots();
    const states = [[], [1], [1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]];
    for (const [at, state] of states.entries()) {
      expect(slots.add(keyOf(at))).toBe(at);
      slots.keep(at, state, 100 + at);
      slots.mark(at, at % 2 === 0);
    }
    const [first, second, third, fourth, fifth] = contents(slots);
    slots.remove(1);
    expect(contents(slots)).toEqual([first, fifth, third, fourth]);
    slots.remove(3);
    expect(contents(slots)).toEqual([first, fifth, third]);
    slots.remove(2);
    slots.add(keyOf('new'));
    expect(contents(slots).at(-1)).toMatchObject({ key: keyOf('new'), isMarked: false });
    expect(second).toBeDefined();
  });

  test('that are reused for another key keep nothing of the previous one, and have the new cost', () => {
    const slots = new CounterSlots();
    const costOf = (key: CounterKey) => {
      const only = new CounterSlots();
      only.add(key);
      return only.bytes;
    };
    slots.add(keyOf('ж'));
    slots.keep(0, [1, 2, 3, 4], 5);
    slots.mark(0, true);
    slots.replace(0, keyOf('a longer one'));
    slots.keep(0, [7], 6);
    expect(contents(slots)).toEqual([{ key: keyOf('a longer one'), state: [7], expiresAtMs: 6, isMarked: false }]);
    expect(slots.bytes).toBe(costOf(keyOf('a longer one')));
  });

  test('are allocated and freed by the thousand, and are correct at each boundary', () => {
    const slots = new CounterSlots();
    for (let at = 0; at < 5_000; at++) slots.keep(slots.add(keyOf(at)), [at, 1, 2, 3], at);
    for (let left = 5_000; left > 100; left--) slots.remove(0);
    expect(new Set(contents(slots).map(({ key }) => key)).size).toBe(100);
    for (let at = 0; at < 5_000; at++) slots.keep(slots.add(keyOf(`again ${at}`)), [at], at);
    expect(slots.stateAt(slots.size - 1)).toEqual([4_999]);
    while (slots.size > 0) slots.remove(slots.size - 1);
    expect(slots.bytes).toBe(0);
  });

  test.each([0, 1, 2, 3, 4, 10])('keep a state of %i numbers unchanged', (length) => {
    const slots = new CounterSlots();
    const slot = slots.add(keyOf('one'));
    slots.keep(slot, [9, 9, 9, 9, 9], 0);
    const state = Array.from({ length }, (_, at) => 1_700_000_000_000 + at);
    const before = [...state];
    slots.keep(slot, state, Number.MAX_SAFE_INTEGER);
    state.fill(0);
    expect(slots.stateAt(slot)).toEqual(before);
    expect(slots.expiresAtMs(slot)).toBe(Number.MAX_SAFE_INTEGER);
  });
});
