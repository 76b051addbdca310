import type { State } from '../../../../src/engine/algorithms/limit.ts';
import { type CounterKey, createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { BoundedCounters, type CounterBounds } from '../../../../src/engine/backends/memory/bounded-counters.ts';
import { fixedWindowOf } from '../../../helpers/limits.ts';
import fc from '../../../helpers/property.ts';

/** A counter in a plain Map. */
interface Kept {
  readonly state: State;
  readonly expiresAtMs: number;
  /** It expired at some time since, so it may have been dropped, even if the clock then steps back. */
  mayBeGone: boolean;
}

interface Call {
  readonly key: CounterKey;
  readonly state: State;
  readonly ttlMs: number;
  /** The clock before the call. */
  readonly clockMs: number;
}

const START_MS = 1_700_000_000_000;

const set = (counters: BoundedCounters, key: CounterKey, state: State, ttlMs: number, nowMs: number): void =>
  counters.set(key, counters.find(key), { state, ttlMs }, nowMs);

const get = (counters: BoundedCounters, key: CounterKey, nowMs: number): State | undefined =>
  counters.stateAt(counters.find(key), nowMs);

const textKey = (text: string) => text as CounterKey; // any text will do

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

const anyBounds = fc.record({
  maxCounters: fc.integer({ min: 1, max: 20 }),
  maxBytes: fc.oneof(fc.constant(1_000_000), fc.integer({ min: 1, max: 5_000 })),
});

/** Plays the calls on both, and passes on the Map's contents after each. At the end, all are forgotten. */
function replay(
  calls: readonly Call[],
  bounds: CounterBounds,
  compare: (counters: BoundedCounters, model: ReadonlyMap<CounterKey, Kept>, nowMs: number, last: Call) => void,
): void {
  const counters = new BoundedCounters(bounds);
  const model = new Map<CounterKey, Kept>();
  let nowMs = START_MS;
  for (const call of calls) {
    const { key, state, ttlMs, clockMs } = call;
    nowMs += clockMs;
    for (const kept of model.values()) kept.mayBeGone ||= kept.expiresAtMs <= nowMs;
    const given = [...state];
    set(counters, key, given, ttlMs, nowMs);
    given.fill(0); // its owner may reuse it
    if (ttlMs > 0) model.set(key, { state, expiresAtMs: nowMs + ttlMs, mayBeGone: false });
    else model.delete(key);
    compare(counters, model, nowMs, call);
  }
  for (const key of model.keys()) set(counters, key, [], 0, nowMs);
  expect([counters.size, counters.bytes]).toEqual([0, 0]);
}

describe('counters with room for all', () => {
  test('have the same contents as a Map, for any keys, states and clock', () => {
    fc.assert(
      fc.property(anyCalls, (calls) => {
        const keys = new Set(calls.map(({ key }) => key));
        replay(calls, { maxCounters: 1_000 }, (counters, model, nowMs) => {
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

  test('are all found again when they exceed a chunk and a shard, and after half of them are dropped', () => {
    const counters = new BoundedCounters({ maxCounters: 1_000_000 });
    const keys = Array.from({ length: 10_000 }, (_, at) => textKey(`|3:api|4:user|5:${at}`));
    for (const [at, key] of keys.entries()) set(counters, key, [at, 1], 1, START_MS);
    for (const [at, key] of keys.entries()) if (at % 2 === 0) set(counters, key, [], 0, START_MS);
    for (const [at, key] of keys.entries()) if (at % 4 === 0) set(counters, key, [at, 2, 3, 4, 5], 1, START_MS);
    const states = keys.map((key) => get(counters, key, START_MS));
    const wanted = keys.map((_, at) => (at % 4 === 0 ? [at, 2, 3, 4, 5] : at % 2 === 0 ? undefined : [at, 1]));
    expect(states).toEqual(wanted);
  });
});

describe('counters without room for all', () => {
  test('have the same contents as a Map or are forgotten, except the last one, and never exceed the room', () => {
    fc.assert(
      fc.property(anyCalls, anyBounds, (calls, bounds) => {
        replay(calls, bounds, (counters, model, nowMs, last) => {
          let found = 0;
          for (const [key, kept] of model) {
            const state = get(counters, key, nowMs);
            if (counters.find(key) !== undefined) found++;
            if (state !== undefined) expect(state).toEqual(kept.state);
          }
          expect(counters.size).toBe(found);
          expect(found).toBeLessThanOrEqual(bounds.maxCounters);
          if (found > 1) expect(counters.bytes).toBeLessThanOrEqual(bounds.maxBytes);
          expect(get(counters, last.key, nowMs)).toEqual(last.ttlMs > 0 ? last.state : undefined);
        });
      }),
    );
  });

  test('that were busy before are dropped before those that are busy now', () => {
    const counters = new BoundedCounters({ maxCounters: 8 });
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

test('cleared counters are gone, and leave room for as many again', () => {
  const counters = new BoundedCounters({ maxCounters: 2 });
  for (const name of ['a', 'b']) set(counters, textKey(name), [1, 2, 3, 4], 1, START_MS);
  counters.clear();
  expect(get(counters, textKey('a'), START_MS)).toBeUndefined();
  for (const name of ['c', 'd']) set(counters, textKey(name), [2], 1, START_MS);
  expect(['c', 'd'].map((name) => get(counters, textKey(name), START_MS))).toEqual([[2], [2]]);
});

const limit = fixedWindowOf(1_000_000);
const counterKeys = createCounterKeys('');
/** A key like those of requests, with a value of `length` characters. */
const keyOf = (at: number, length: number, filler = 'x') =>
  counterKeys(limit, 'api', [{ key: 'user', value: String(at).padStart(length, filler) }]);

test('counters that are forgotten before they expire count as evicted', () => {
  const counters = new BoundedCounters({ maxCounters: 2 });
  for (const name of ['a', 'b']) set(counters, textKey(name), [1], 1, START_MS);
  expect(counters.evicted).toBe(0);
  set(counters, textKey('c'), [1], 1, START_MS);
  expect(counters.evicted).toBe(1);
  set(counters, textKey('d'), [1], 1, START_MS + 1_000); // all others have expired
  expect(counters.evicted).toBe(1);
});

test('expired counters are dropped as new ones arrive, even with room left', () => {
  const counters = new BoundedCounters({ maxCounters: 10_000 });
  for (let at = 0; at < 50; at++) set(counters, keyOf(at, 13), [at], 1, START_MS);
  for (let at = 50; at < 100; at++) set(counters, keyOf(at, 13), [at], 1, START_MS + 1);
  expect(counters.size).toBe(50);
});

describe('counters with a maximum number of bytes', () => {
  const MAX_BYTES = 200_000;

  test('make room for a long key by dropping at most ten short ones, including busy ones', () => {
    const counters = new BoundedCounters({ maxCounters: 1_000_000, maxBytes: MAX_BYTES });
    for (let round = 0; round < 2; round++)
      for (let at = 0; at < 1_500; at++) set(counters, keyOf(at, 1), [at], 1, START_MS);
    for (let at = 0; at < 200; at++) {
      const before = counters.size;
      set(counters, keyOf(at, 460, 'ж'), [at], 1, START_MS);
      expect(before + 1 - counters.size).toBeLessThanOrEqual(10);
    }
  });

  test('displace others, not itself, when a state grows', () => {
    const counters = new BoundedCounters({ maxCounters: 1_000_000, maxBytes: 100_000 });
    for (let at = 0; at < 1_000; at++) set(counters, keyOf(at, 13), [at], 1, START_MS);
    const growing = keyOf(999, 13);
    for (let length = 4; length < 10_000; length += 100)
      set(counters, growing, new Array<number>(length).fill(START_MS), 1, START_MS);
    expect(get(counters, growing, START_MS)).toHaveLength(9_904);
    expect(counters.bytes).toBeLessThanOrEqual(100_000);
  });

  test('keep the digest of a key that is longer than any of their own', () => {
    const counters = new BoundedCounters({ maxCounters: 10, maxBytes: 4_000 });
    const keys = ['a', 'b'].map((last) => textKey(`${'x'.repeat(1_000_000)}${last}`));
    for (const [at, key] of keys.entries()) set(counters, key, [at], 1, START_MS);
    expect(keys.map((key) => get(counters, key, START_MS))).toEqual([[0], [1]]);
    expect(counters.bytes).toBeLessThan(500);
  });
});
