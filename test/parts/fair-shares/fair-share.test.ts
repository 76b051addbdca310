import type { State } from '../../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { fairShare } from '../../../src/parts/fair-shares/fair-share.ts';
import { fakeClock } from '../../helpers/clock.ts';
import fc from '../../helpers/property.ts';
import { anyShareTree, measureTree } from '../../helpers/share-trees.ts';
import { newKey } from '../../helpers/shared-stores.ts';
import { childOf, createFleet, fairShareOf, type Leaf } from '../../helpers/shares.ts';
import { jainIndex } from './fluid.ts';

const SECOND = 1_000;

const leafOf = (id: number, demand: number, more: Parameters<typeof childOf>[0] = {}): Leaf => ({
  children: [id],
  path: [childOf(more)],
  demand,
});

/** How far the children of random trees are off, and by how much a limit was exceeded. */
const measureTrees = (seeds: readonly number[]) =>
  Promise.all(
    seeds.map(async (seed) => {
      const clock = fakeClock();
      const stores = [createMemoryBackend(clock, { maxCounters: 1_000 })];
      const tree = anyShareTree(seed, 1 + (seed % 3));
      return measureTree(tree, { stores, clock, key: newKey(), seed });
    }),
  );

test('children get what the fluid model of max-min fairness gives them, in any tree of one to three levels', async () => {
  for (const { children, excess } of await measureTrees(Array.from({ length: 18 }, (_, seed) => seed + 1))) {
    expect(children.filter(({ off }) => off > 1)).toEqual([]);
    expect(excess).toBe(0);
  }
});

test.each([
  [1, 20],
  [2, 50],
  [5, 6],
  [5, 30],
  [5, 500],
  [20, 22],
  [20, 200],
  [100, 300],
])(
  'with a limit of %d per second and a flood of %d, a tenant that calls every 3 seconds always passes',
  (rate, flood) => {
    for (const others of rate < 5 ? [1] : [1, 2, 5]) {
      // it asks for less than its share
      const fleet = createFleet(fairShareOf(rate, { burst: Math.max(rate, 2) }), rate + others);
      const leaves = Array.from({ length: others }, (_, id) =>
        leafOf(id + 2, flood / others, { weight: 1 + (id % 3) }),
      );
      fleet.run(leaves, 10 * SECOND); // so that the others are not new
      for (let call = 0; call < 4; call++) {
        fleet.run(leaves, 3 * SECOND - 7 * call);
        expect(fleet.spend(leafOf(1, 0))).toBe(true);
      }
    }
  },
);

test('a tenant that asks for two thirds of its share at any pace passes beside any floods', () => {
  const anyFlood = fc.record({ weight: fc.integer({ min: 1, max: 10 }), demand: fc.integer({ min: 1, max: 20 }) });
  fc.assert(
    fc.property(
      fc.integer({ min: 3, max: 200 }),
      fc.array(anyFlood, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 100, max: 5_000 }),
      (rate, floods, paceMs) => {
        const fleet = createFleet(fairShareOf(rate), rate);
        const weights = floods.reduce((sum, { weight }) => sum + weight, 1);
        const leaves = floods.map(({ weight, demand }, id) => leafOf(id + 2, Math.min(demand * rate, 600), { weight }));
        fleet.run(leaves, 6 * SECOND);
        for (let call = 0; call < 4; call++) {
          fleet.run(leaves, Math.max(paceMs, (1_500 * weights) / rate));
          expect(fleet.spend(leafOf(1, 0))).toBe(true);
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('a team that comes back passes although a sibling of its organisation and another organisation flood', () => {
  const fleet = createFleet(fairShareOf(100));
  const leaf = (org: number, team: number, demand: number): Leaf => ({
    children: [org, 10 * org + team],
    path: [childOf({ key: 'org' }), childOf({ key: 'team' })],
    demand,
  });
  const floods = [leaf(1, 1, 200), leaf(2, 1, 300)];
  fleet.run(floods, 4 * SECOND);
  for (let call = 0; call < 6; call++) {
    fleet.run(floods, 3 * SECOND);
    expect(fleet.spend(leaf(1, 2, 0))).toBe(true);
  }
});

test('a limit per minute is shared in the same way', () => {
  const fleet = createFleet(fairShareOf(60, { windowMs: 60_000, burst: 10 }));
  const leaves = [leafOf(1, 2), leafOf(2, 2, { weight: 3 })];
  fleet.run(leaves, 120 * SECOND);
  const [one = 0, three = 0] = fleet.run(leaves, 240 * SECOND);
  expect(Math.abs(one - 60)).toBeLessThan(6);
  expect(Math.abs(three - 180)).toBeLessThan(12);
  expect(fleet.spend(leafOf(3, 0))).toBe(true);
});

test('20 greedy users have equal shares', () => {
  const leaves = Array.from({ length: 20 }, (_, id) => leafOf(id + 1, 10 + 3 * id));
  const fleet = createFleet(fairShareOf(100));
  fleet.run(leaves, 4 * SECOND);
  expect(jainIndex(fleet.run(leaves, 10 * SECOND))).toBeGreaterThan(0.99);
});

test('refused hits pass after the promised time if nothing else arrives, and the promise is at most a sixteenth late', () => {
  const fleet = createFleet(fairShareOf(100));
  const leaves = [leafOf(1, 300, { reserve: 10 }), leafOf(2, 500, { ceiling: 30 }), leafOf(3, 200, { weight: 3 })];
  let waits = 0;
  for (let round = 0; round < 100; round++) {
    fleet.run(leaves, 37);
    const leaf = leaves[round % 3] as Leaf;
    const waitMs = fleet.waitMs(leaf, 1 + (round % 4));
    if (waitMs === 0) continue;
    waits++;
    expect(fleet.after(waitMs).waitMs(leaf, 1 + (round % 4))).toBe(0);
    if (waitMs > 16) expect(fleet.after(Math.floor((waitMs * 15) / 16) - 1).waitMs(leaf, 1 + (round % 4))).not.toBe(0);
  }
  expect(waits).toBeGreaterThan(25);
});

test('100 tenants at 10 times the limit share it by weight, with a Jain index of 0.99 and without waste', () => {
  const leaves = Array.from({ length: 100 }, (_, id) => leafOf(id + 1, 30, { weight: 1 + (id % 4) }));
  const fleet = createFleet(fairShareOf(300));
  fleet.run(leaves, 5 * SECOND);
  const passed = fleet.run(leaves, 8 * SECOND);
  expect(jainIndex(passed.map((hits, at) => hits / (leaves[at]?.path[0]?.weight ?? 1)))).toBeGreaterThan(0.99);
  const sum = passed.reduce((total, hits) => total + hits, 0);
  expect(sum / (8 * 300)).toBeGreaterThan(0.95);
});

test('an unknown user that floods gets its fair share, and a lone one everything', () => {
  const fleet = createFleet(fairShareOf());
  const flood = leafOf(1, 5_000);
  const others = Array.from({ length: 9 }, (_, id) => leafOf(id + 2, 90));
  expect(fleet.run([flood], 4 * SECOND)[0]).toBeGreaterThan(4_400); // and half of the bucket
  fleet.run([flood, ...others], 2 * SECOND);
  const [taken = 0, ...passed] = fleet.run([flood, ...others], 5 * SECOND);
  expect(Math.min(...passed) / (5 * 90)).toBeGreaterThan(0.85);
  expect(passed.reduce((sum, hits) => sum + hits, 0) / (9 * 5 * 90)).toBeGreaterThan(0.97);
  expect(taken).toBeGreaterThan(5 * 150);
  fleet.run([flood], 3 * SECOND);
  expect((fleet.run([flood], 4 * SECOND)[0] ?? 0) / 4_000).toBeCloseTo(1, 2);
});

test.each([100, 900])('a returning tenant has its reservation of %d within a second', (reserve) => {
  const fleet = createFleet(fairShareOf(1_000, { reserved: reserve }));
  const flood = Array.from({ length: 20 }, (_, id) => leafOf(id + 10, 150));
  const own = leafOf(1, 5_000, { reserve });
  for (let round = 0; round < 2; round++) {
    fleet.run(flood, 2 * SECOND);
    expect(fleet.run([own, ...flood], SECOND)[0]).toBeGreaterThanOrEqual(reserve);
  }
});

test('siblings keep their unspent reservations, and an idle one lends all of it', () => {
  const fleet = createFleet(fairShareOf(1_000, { reserved: 500 }));
  const half = leafOf(1, 50, { reserve: 500 });
  const flood = leafOf(2, 10_000);
  fleet.run([half, flood], 2 * SECOND);
  const [own = 0, borrowed = 0] = fleet.run([half, flood], 4 * SECOND);
  expect(own / 4).toBeGreaterThan(40);
  expect((own + borrowed) / 4_000).toBeCloseTo(1, 1);
  expect(fleet.spend(half, 400)).toBe(true); // at once, in the middle of the flood
});

test('critical calls pass while sheddable ones spike to 12 times the limit', () => {
  const fleet = createFleet(fairShareOf());
  const critical = { ...leafOf(1, 400), threshold: 100 };
  const spike = Array.from({ length: 4 }, (_, id) => ({ ...leafOf(id + 2, 3_000), threshold: 60 }));
  fleet.run([critical, ...spike], SECOND);
  let asked = 0;
  let passed = 0;
  for (let at = 0; at < 2 * SECOND; at++) {
    if (at % 5 < 2) {
      asked++;
      if (fleet.spend(critical)) passed++;
    }
    fleet.run(spike, 1);
  }
  expect(passed / asked).toBeGreaterThan(0.994);
});

test('the children together never exceed the bucket of their parent, whatever they ask', () => {
  const anyCall = fc.record({
    child: fc.integer({ min: 1, max: 4 }),
    hits: fc.integer({ min: 1, max: 12 }),
    afterMs: fc.constantFrom(0, 0, 1, 7, 300, 2_500),
  });
  fc.assert(
    fc.property(fc.array(anyCall, { maxLength: 200 }), (calls) => {
      const whole = fairShareOf(20);
      const fleet = createFleet(whole);
      let tokens = 20_000; // an ordinary bucket, in thousandths
      for (const { child, hits, afterMs } of calls) {
        fleet.clock.advance(afterMs);
        tokens = Math.min(tokens + afterMs * 20, 20_000);
        const leaf = leafOf(child, 0, { reserve: child === 1 ? 8 : 0, ceiling: child === 2 ? 5 : 0 });
        if (fleet.spend(leaf, hits)) tokens -= hits * 1_000;
        expect(tokens).toBeGreaterThanOrEqual(0);
      }
    }),
  );
});

test('a state has as many numbers for one sibling as for thousands', () => {
  const limit = fairShareOf(1_000, { path: [childOf()] });
  let parent: State = [];
  for (let id = 1; id <= 2_000; id++) {
    const state = parent.length === 0 ? undefined : [...parent, ...parent.map(() => 0)];
    const next = fairShare.step(limit, state, 1_700_000_000_000, 1, true, { share: { children: [id] } }).state;
    parent = next.slice(0, next.length / 2);
  }
  expect(parent).toHaveLength(13);
});
