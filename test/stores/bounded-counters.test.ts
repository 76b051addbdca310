import fc from 'fast-check';
import type { State } from '../../src/algorithms/limit.ts';
import { type BoundedCounters, createBoundedCounters } from '../../src/stores/bounded-counters.ts';
import type { CounterKey } from '../../src/stores/key.ts';

/** What a plain Map would know of a counter. */
interface Kept {
  readonly state: State;
  readonly expiresAtMs: number;
  /** It was past its time at some moment since: it may have been dropped, and then stays so if the clock steps back. */
  mayBeGone: boolean;
}

interface Call {
  readonly key: CounterKey;
  readonly state: State;
  readonly ttlMs: number;
  /** Before the call. */
  readonly clockMs: number;
}

const START_MS = 1_700_000_000_000;

const set = (counters: BoundedCounters, key: CounterKey, state: State, ttlMs: number, nowMs: number): void =>
  counters.set(key, counters.find(key), { accepted: true, state, ttlMs }, nowMs);

const get = (counters: BoundedCounters, key: CounterKey, nowMs: number): State | undefined =>
  counters.stateAt(counters.find(key), nowMs);

const textKey = (text: string) => text as CounterKey; // any text names a counter as well as another

const anyNumber = fc.oneof(fc.nat(10), fc.maxSafeNat());
const anyCall = (keys: fc.Arbitrary<string>): fc.Arbitrary<Call> =>
  fc.record({
    key: keys.map(textKey),
    state: fc.array(anyNumber, { maxLength: 10 }),
    ttlMs: fc.oneof(fc.integer({ min: -5, max: 50 }), fc.constant(3_600_000)),
    clockMs: fc.oneof(fc.constant(0), fc.integer({ min: -20, max: 30 })),
  });
const anyText = fc.oneof(fc.string({ maxLength: 40 }), fc.string({ unit: 'binary', maxLength: 10 }));
const anyOf = (texts: readonly string[]) => anyCall(fc.constantFrom(...texts));
const anyCalls = fc
  .uniqueArray(anyText, { minLength: 1, maxLength: 30 })
  .chain((texts) => fc.array(anyOf(texts), { maxLength: 200 }));

/** Plays the calls on both, and hands over what the Map knows after each. */
function replay(
  calls: readonly Call[],
  maxCounters: number,
  compare: (counters: BoundedCounters, model: ReadonlyMap<CounterKey, Kept>, nowMs: number, last: Call) => void,
): void {
  const counters = createBoundedCounters(maxCounters);
  const model = new Map<CounterKey, Kept>();
  let nowMs = START_MS;
  for (const call of calls) {
    const { key, state, ttlMs, clockMs } = call;
    nowMs += clockMs;
    for (const kept of model.values()) kept.mayBeGone ||= kept.expiresAtMs <= nowMs;
    set(counters, key, state, ttlMs, nowMs);
    if (ttlMs > 0) model.set(key, { state, expiresAtMs: nowMs + ttlMs, mayBeGone: false });
    else model.delete(key);
    compare(counters, model, nowMs, call);
  }
}

describe('counters of which there is room for all', () => {
  test('are what a Map would have of them, whatever the keys, states and clock', () => {
    fc.assert(
      fc.property(anyCalls, (calls) => {
        const keys = new Set(calls.map(({ key }) => key));
        replay(calls, 1_000, (counters, model, nowMs) => {
          for (const key of keys) {
            const kept = model.get(key);
            const state = get(counters, key, nowMs);
            if (!kept || kept.expiresAtMs <= nowMs) expect(state).toBeUndefined();
            else if (state !== undefined || !kept.mayBeGone) expect(state).toEqual(kept.state);
          }
        });
      }),
    );
  });

  test('are all found again when they are more than a chunk and a shard hold, and after half of them are dropped', () => {
    const counters = createBoundedCounters(1_000_000);
    const keys = Array.from({ length: 10_000 }, (_, at) => textKey(`|3:api|4:user|5:${at}`));
    for (const [at, key] of keys.entries()) set(counters, key, [at, 1], 1, START_MS);
    for (const [at, key] of keys.entries()) if (at % 2 === 0) set(counters, key, [], 0, START_MS);
    for (const [at, key] of keys.entries()) if (at % 4 === 0) set(counters, key, [at, 2, 3, 4, 5], 1, START_MS);
    const states = keys.map((key) => get(counters, key, START_MS));
    const wanted = keys.map((_, at) => (at % 4 === 0 ? [at, 2, 3, 4, 5] : at % 2 === 0 ? undefined : [at, 1]));
    expect(states).toEqual(wanted);
  });
});

describe('counters of which there is not room for all', () => {
  test('are what a Map would have of them or forgotten, the last one never, and no more than there is room for', () => {
    fc.assert(
      fc.property(anyCalls, fc.integer({ min: 1, max: 20 }), (calls, maxCounters) => {
        replay(calls, maxCounters, (counters, model, nowMs, last) => {
          let found = 0;
          for (const [key, kept] of model) {
            const state = get(counters, key, nowMs);
            if (counters.find(key) !== undefined) found++;
            if (state !== undefined) expect(state).toEqual(kept.state);
          }
          expect(found).toBeLessThanOrEqual(maxCounters);
          expect(get(counters, last.key, nowMs)).toEqual(last.ttlMs > 0 ? last.state : undefined);
        });
      }),
    );
  });

  test('that were busy once give way before those that are busy now', () => {
    const counters = createBoundedCounters(8);
    const once = Array.from({ length: 8 }, (_, at) => textKey(`busy ${at}`));
    const makeBusy = (key: CounterKey) => {
      for (let hit = 1; hit <= 2; hit++) set(counters, key, [hit], 1, START_MS);
    };
    for (const key of [...once, textKey('new')]) makeBusy(key);
    const now = once.filter((key) => get(counters, key, START_MS)).slice(0, 3);
    for (const key of now) makeBusy(key);
    for (let at = 0; at < 3; at++) makeBusy(textKey(`newer ${at}`));
    expect(now.map((key) => get(counters, key, START_MS))).toEqual([[2], [2], [2]]);
  });
});

test('cleared counters are gone, and there is room for as many again', () => {
  const counters = createBoundedCounters(2);
  for (const name of ['a', 'b']) set(counters, textKey(name), [1, 2, 3, 4], 1, START_MS);
  counters.clear();
  expect(get(counters, textKey('a'), START_MS)).toBeUndefined();
  for (const name of ['c', 'd']) set(counters, textKey(name), [2], 1, START_MS);
  expect(['c', 'd'].map((name) => get(counters, textKey(name), START_MS))).toEqual([[2], [2]]);
});
