import type { Stream } from '../../../src/h2/http2/stream.ts';
import { StreamIndex } from '../../../src/h2/http2/stream-index.ts';
import { heapBytes } from '../../helpers/heap.ts';
import fc from '../../helpers/property.ts';

const numbered = (id: number) => ({ id }) as Stream;

/** Opens the next stream after `skipped` numbers, or ends one of the open ones. */
const step = fc.oneof(
  fc.record({ open: fc.constant(true), skipped: fc.oneof(fc.constant(0), fc.nat(70)) }),
  fc.record({ open: fc.constant(false), place: fc.nat() }),
);

test('open streams are found by their numbers, in any order of ends and with any gaps', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 600 }), (steps) => {
      const streams = new StreamIndex();
      const model = new Map<number, Stream>();
      let lastId = -1;
      for (const one of steps) {
        if ('skipped' in one) {
          lastId += 2 + 2 * one.skipped;
          const stream = numbered(lastId);
          streams.add(stream);
          model.set(lastId, stream);
        } else {
          const id = [...model.keys()][one.place % Math.max(model.size, 1)];
          if (id === undefined) continue;
          streams.delete(id);
          streams.delete(id); // ended already
          model.delete(id);
        }
        expect(streams.size).toBe(model.size);
      }
      for (let id = 0; id <= lastId; id++) expect(streams.get(id)).toBe(model.get(id));
      expect(streams.all()).toEqual([...model.values()]);
    }),
    { numRuns: 150 },
  );
});

test('a stream that outlives thousands of others stays open', () => {
  const streams = new StreamIndex();
  const lasting = numbered(1);
  streams.add(lasting);
  for (let id = 3; id < 10_003; id += 2) {
    streams.add(numbered(id));
    streams.delete(id);
  }
  expect(streams.get(1)).toBe(lasting);
  expect(streams.all()).toEqual([lasting]);
});

test('iterates over a snapshot of the streams', () => {
  const streams = new StreamIndex();
  for (const id of [1, 3, 5]) streams.add(numbered(id));
  const visited: number[] = [];
  for (const { id } of streams.all()) {
    visited.push(id);
    streams.delete(5);
    streams.add(numbered(id + 100));
  }
  expect(visited).toEqual([1, 3, 5]);
});

test('a connection with thousands of ended streams takes little memory, even if one is left', () => {
  const KIB = 1_024;
  const CONNECTIONS = 60; // so many that other work in the process hardly matters
  const STREAMS = 4_097;
  const last = numbered(1 + 2 * 8_192 * 2); // in the slot of the first
  const streams = Array.from({ length: STREAMS }, (_, at) => numbered(1 + 2 * at));
  const before = heapBytes();
  const indexes = Array.from({ length: CONNECTIONS }, () => {
    const index = new StreamIndex();
    for (const stream of streams) index.add(stream);
    index.add(last);
    for (const { id } of streams) index.delete(id);
    return index;
  });
  expect(heapBytes() - before).toBeLessThan(CONNECTIONS * 16 * KIB);
  for (const index of indexes) expect(index.all()).toEqual([last]);
});
