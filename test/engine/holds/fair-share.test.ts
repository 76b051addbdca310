import type { State } from '../../../src/engine/algorithms/limit.ts';
import { fairShare } from '../../../src/engine/holds/fair-share.ts';
import fc from '../../helpers/property.ts';
import { childOf, createFleet, fairShareOf, type Leaf } from '../../helpers/shares.ts';
import { type FluidChild, fluidRates, jainIndex } from './fluid.ts';

const SECOND = 1_000;

const leafOf = (id: number, demand: number, more: Parameters<typeof childOf>[0] = {}): Leaf => ({
  children: [id],
  path: [childOf(more)],
  demand,
});

/** Any tree of three levels: organisations, teams, keys. */
const anyTree = fc.array(
  fc.record({
    reserve: fc.constantFrom<number>(0, 0, 100, 200),
    weight: fc.integer({ min: 1, max: 4 }),
    ceiling: fc.constantFrom<number>(0, 0, 400),
    teams: fc.array(
      fc.record({
        part: fc.constantFrom(0, 0.5),
        weight: fc.integer({ min: 1, max: 3 }),
        keys: fc.array(fc.integer({ min: 5, max: 1_500 }), { minLength: 1, maxLength: 2 }),
      }),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  { minLength: 2, maxLength: 4 },
);

type Tree = typeof anyTree extends fc.Arbitrary<infer T> ? T : never;

const leavesOf = (tree: Tree): readonly Leaf[] =>
  tree.flatMap(({ reserve, weight, ceiling, teams }, org) =>
    teams.flatMap((team, at) =>
      team.keys.map((demand, place): Leaf => {
        const id = org * 1_000 + 1;
        const path = [
          childOf({ key: 'org', reserve, weight, ceiling }),
          childOf({ key: 'team', reserve: reserve * team.part, weight: team.weight }),
          childOf({ key: 'key' }),
        ];
        const teamId = id + 11 * at + 1;
        return { children: [id, teamId, teamId + place + 1], path, demand };
      }),
    ),
  );

const fluidOf = (tree: Tree): readonly FluidChild[] =>
  tree.map(({ reserve, weight, ceiling, teams }) => ({
    reserve,
    weight,
    ceiling: ceiling || Number.POSITIVE_INFINITY,
    demand: 0,
    children: teams.map((team) => ({
      reserve: reserve * team.part,
      weight: team.weight,
      ceiling: Number.POSITIVE_INFINITY,
      demand: 0,
      children: team.keys.map((demand) => ({
        ...{ reserve: 0, weight: 1, ceiling: Number.POSITIVE_INFINITY },
        ...{ demand, children: [] },
      })),
    })),
  }));

test('three levels get what the fluid model of max-min fairness gives them, also after demand has moved', () => {
  fc.assert(
    fc.property(anyTree, anyTree, fc.integer(), (tree, other, seed) => {
      const fleet = createFleet(fairShareOf(1_000, { burst: 200 }), seed);
      for (const now of [tree, other]) {
        const leaves = leavesOf(now);
        fleet.run(leaves, 2 * SECOND);
        const passed = fleet.run(leaves, 4 * SECOND);
        for (const [at, rate] of fluidRates(1_000, fluidOf(now)).entries())
          expect(Math.abs((passed[at] ?? 0) / 4 - rate)).toBeLessThan(0.06 * rate + 12);
      }
    }),
    { numRuns: 3, endOnFailure: true },
  );
});

test('250 tenants at 12 times the limit share it by weight, with a Jain index of 0.99 and without waste', () => {
  const leaves = Array.from({ length: 250 }, (_, id) => leafOf(id + 1, 48, { weight: 1 + (id % 4) }));
  const fleet = createFleet(fairShareOf(1_000));
  fleet.run(leaves, SECOND);
  const passed = fleet.run(leaves, 4 * SECOND);
  expect(jainIndex(passed.map((hits, at) => hits / (leaves[at]?.path[0]?.weight ?? 1)))).toBeGreaterThan(0.99);
  const sum = passed.reduce((total, hits) => total + hits, 0);
  expect(sum / 4_000).toBeGreaterThan(0.99);
});

test('an unknown user that floods gets its fair share, and a lone one everything', () => {
  const fleet = createFleet(fairShareOf());
  const flood = leafOf(1, 5_000);
  const others = Array.from({ length: 9 }, (_, id) => leafOf(id + 2, 90));
  expect((fleet.run([flood], 4 * SECOND)[0] ?? 0) / 5_000).toBeCloseTo(1, 2); // and the bucket
  fleet.run([flood, ...others], 2 * SECOND);
  const [taken = 0, ...passed] = fleet.run([flood, ...others], 5 * SECOND);
  expect(Math.min(...passed) / (5 * 90)).toBeGreaterThan(0.85);
  expect(passed.reduce((sum, hits) => sum + hits, 0) / (9 * 5 * 90)).toBeGreaterThan(0.97);
  expect(taken).toBeGreaterThan(5 * 150);
  fleet.run([flood], 3 * SECOND);
  expect((fleet.run([flood], 4 * SECOND)[0] ?? 0) / 4_000).toBeCloseTo(1, 2);
});

test.each([100, 900])('a returning tenant has its reservation of %d within a second', (reserve) => {
  const fleet = createFleet(fairShareOf());
  const flood = Array.from({ length: 20 }, (_, id) => leafOf(id + 10, 1_000));
  const own = leafOf(1, 5_000, { reserve });
  for (let round = 0; round < 2; round++) {
    fleet.run(flood, 2 * SECOND);
    expect(fleet.run([own, ...flood], SECOND)[0]).toBeGreaterThanOrEqual(reserve);
  }
});

test('active siblings keep their unspent reservations, and an idle one lends all of it', () => {
  const fleet = createFleet(fairShareOf());
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
  expect(parent).toHaveLength(15);
});
