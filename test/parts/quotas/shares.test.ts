import { fairLevel, fairShare, MAX_HOLDERS, type ShareState, stepShares } from '../../../src/parts/quotas/shares.ts';
import fc from '../../helpers/property.ts';
import { randomOf } from '../../helpers/random.ts';
import { Simulation } from './simulation.ts';

const terms = { ttlMs: 60_000, transitMs: 2_000, silenceMs: 15_000 };
const pool = { units: 6_000, fillMs: 60_000, burst: 100 };
const REPORT_MS = 5_000;

const simulate = (seed: number, more: object = {}): Simulation =>
  new Simulation({ pool, terms, reportMs: REPORT_MS, random: randomOf(seed), ...more });

const ids = ['a', 'b', 'c', 'd', 'e'];

const event = fc.record({
  kind: fc.constantFrom('start', 'anonymous', 'kill', 'demand', 'disconnect', 'restart'),
  id: fc.constantFrom(...ids),
  demand: fc.integer({ min: 0, max: 300 }),
  afterMs: fc.integer({ min: 0, max: 30_000 }),
});

test('the valid shares add up to at most the rate at all times, whatever happens', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.array(event, { minLength: 5, maxLength: 40 }),
      fc.record({
        units: fc.integer({ min: 1, max: 20_000 }),
        burst: fc.integer({ min: 1, max: 500 }),
        ttlMs: fc.integer({ min: 15_000, max: 90_000 }),
      }),
      (seed, events, { units, burst, ttlMs }) => {
        const options = {
          pool: { ...pool, units, burst },
          terms: { ...terms, ttlMs },
          delayPart: 1,
          duplicated: 0.2,
          lost: 0.2,
        };
        const simulation = simulate(seed, options);
        for (const { kind, id, demand, afterMs } of events) {
          if (kind === 'start' || kind === 'anonymous') simulation.start(id, demand, kind === 'start');
          else if (kind === 'kill') simulation.kill(id);
          else if (kind === 'demand') simulation.setDemand(id, demand);
          else if (kind === 'disconnect') simulation.disconnect(id);
          else simulation.restart();
          simulation.run(afterMs, 250);
        }
        expect(simulation.mostUnits).toBeLessThanOrEqual(units);
        expect(simulation.mostBurst).toBeLessThanOrEqual(burst + ids.length);
      },
    ),
    { numRuns: 150 },
  );
});

test('holders whose demand exceeds the rate use at least 95 % of it three reports after a change, in fair shares', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.array(fc.integer({ min: 5, max: 200 }), { minLength: 1, maxLength: 10 }),
      fc.array(fc.integer({ min: 5, max: 200 }), { minLength: 10, maxLength: 10 }),
      (seed, first, second) => {
        const simulation = simulate(seed);
        const check = (demands: readonly number[]): void => {
          const total = demands.reduce((sum, demand) => sum + demand, 0);
          if (total < 120) return; // the rate is 100 per second
          const used = demands.map((demand, at) => Math.min(demand * 60, simulation.unitsOf(String(at))));
          expect(used.reduce((sum, units) => sum + units, 0)).toBeGreaterThanOrEqual(0.95 * pool.units);
          const level = Math.max(...used);
          for (const [at, demand] of demands.entries())
            expect(used[at]).toBeGreaterThanOrEqual(Math.min(demand * 60, level) * 0.8);
        };
        for (const [at, demand] of first.entries()) simulation.start(String(at), demand);
        simulation.run(4 * REPORT_MS);
        check(first);
        const moved = first.map((_, at) => second[at] ?? 5);
        for (const [at, demand] of moved.entries()) simulation.setDemand(String(at), demand);
        simulation.run(5 * REPORT_MS);
        check(moved);
      },
    ),
    { numRuns: 150 },
  );
});

test('the share of a holder that has died is given to others when its term is over, and not before', () => {
  const simulation = simulate(1);
  simulation.start('a', 200);
  simulation.start('b', 200);
  simulation.run(60_000);
  const before = simulation.unitsOf('b');
  expect(before).toBeGreaterThan(2_800);
  simulation.kill('a');
  simulation.run(25_000);
  expect(simulation.unitsOf('b')).toBe(before);
  simulation.run(terms.ttlMs);
  expect(simulation.unitsOf('b')).toBeGreaterThan(5_800);
});

test('a named holder keeps its share when the service restarts', () => {
  const simulation = simulate(2);
  simulation.start('a', 200);
  simulation.start('b', 50);
  simulation.run(60_000);
  const before = simulation.unitsOf('a');
  simulation.restart();
  simulation.run(2 * REPORT_MS);
  expect(simulation.unitsOf('a')).toBeGreaterThan(0.95 * before);
});

test('a holder without a name keeps the share that it has when the service restarts, instead of a smaller one', () => {
  const simulation = simulate(3);
  simulation.start('a', 200, false);
  simulation.run(60_000);
  expect(simulation.unitsOf('a')).toBeGreaterThan(5_800);
  simulation.restart();
  simulation.run(2 * REPORT_MS);
  expect(simulation.unitsOf('a')).toBeGreaterThan(5_800);
});

test('no share of a named holder expires while the service runs, even if connections break and shares are lost', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 10 }),
      fc.array(
        fc.record({
          kind: fc.constantFrom('demand', 'disconnect', 'restart', 'lose'),
          at: fc.nat(9),
          demand: fc.integer({ min: 0, max: 300 }),
          afterMs: fc.integer({ min: 10_000, max: 120_000 }),
        }),
        { minLength: 1, maxLength: 10 },
      ),
      fc.integer({ min: 30_000, max: 90_000 }), // shorter, since a share lost in transit may have been the last
      (seed, demands, events, ttlMs) => {
        const simulation = simulate(seed, { terms: { ...terms, ttlMs } });
        for (const [at, demand] of demands.entries()) simulation.start(String(at), demand);
        simulation.run(60_000);
        for (const { kind, at, demand, afterMs } of events) {
          if (kind === 'demand') simulation.setDemand(String(at), demand);
          else if (kind === 'disconnect') simulation.disconnect(String(at));
          else if (kind === 'restart') simulation.restart();
          else simulation.loseStore();
          simulation.run(afterMs);
        }
        expect(simulation.unlimitedMs).toBe(0);
      },
    ),
    { numRuns: 150 },
  );
});

test('holders whose demand exceeds the rate share it again four reports after the shares were lost', () => {
  const simulation = simulate(5);
  simulation.start('a', 200);
  simulation.start('b', 200);
  simulation.run(60_000);
  simulation.loseStore();
  simulation.run(4 * REPORT_MS);
  simulation.mostUnits = 0;
  simulation.run(2 * terms.ttlMs);
  expect(simulation.mostUnits).toBeLessThanOrEqual(pool.units);
  expect(simulation.unlimitedMs).toBe(0);
});

test('a steady demand gets a new share only when half of the term is over', () => {
  const simulation = simulate(4);
  simulation.start('a', 50);
  simulation.run(60_000);
  const before = simulation.sharesSent;
  simulation.run(10 * terms.ttlMs);
  expect(simulation.sharesSent - before).toBeLessThanOrEqual(21);
});

test('a pool has a maximum number of holders, and a further one gets nothing', () => {
  const report = { requests: 1, elapsedMs: 0, sent: 0, isConfirmed: false, isResumed: false, leaves: false };
  const now = { pool, terms, nowMs: 1_000 };
  let state: ShareState | undefined;
  for (let at = 0; at < MAX_HOLDERS; at++) state = stepShares(state, { ...report, holder: `h${at}` }, now).state;
  const { share, state: after } = stepShares(state, { ...report, holder: 'late' }, now);
  expect(share?.units).toBe(0);
  expect(after).toHaveLength(MAX_HOLDERS);
});

test.each([
  [100, [10, 200, 300], 10, 10],
  [100, [10, 200, 300], 200, 45],
  [100, [50, 50], 50, 50],
  [100, [10, 30], 30, 52],
  [7, [5, 5], 5, 3],
])('of %s, demands of %j get a fair share: %s gets %s', (units, demands, demand, expected) => {
  expect(fairShare(fairLevel(units, demands), demand)).toBe(expected);
});
