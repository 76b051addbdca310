import { readFileSync } from 'node:fs';
import { scalingPage } from '../../../docs/scaling-page.ts';
import { groupedCalls, leasedCalls } from '../../../proof/bench/scaling/calls.ts';
import { fixedRateRow, measuredCosts, measuredLeases } from '../../../proof/bench/scaling/costs.ts';
import {
  defaultPlanning,
  largeLoad,
  nothingOn,
  type ScaledLoad,
  type Switches,
} from '../../../proof/bench/scaling/load.ts';
import { groupsFor, planFor, usedFraction } from '../../../proof/bench/scaling/model.ts';
import { simulateBatches, simulateLeases, simulateRefusals } from '../../../proof/bench/scaling/simulation.ts';
import { atSize, fullAt, isEnough, stepsFor } from '../../../proof/bench/scaling/steps.ts';
import { settingsTable } from '../../../src/settings/table.ts';

const costs = measuredCosts();
const plan = (changes: Partial<Switches> = {}, load: Partial<ScaledLoad> = {}) =>
  planFor({ ...largeLoad, ...load }, { ...nothingOn, ...changes }, costs, defaultPlanning);
const used = ({ bounds }: ReturnType<typeof plan>, name: string): number => {
  const part = bounds.find((one) => one.name === name);
  return part ? usedFraction(part) : Number.NaN;
};

test('the page has the tables that the command prints', async () => {
  expect(readFileSync(`${__dirname}/../../../docs/scaling.md`, 'utf8')).toBe(await scalingPage());
});

test('costs are read from the tables of measurements', () => {
  const page = readFileSync(`${__dirname}/../../../docs/results/bench.md`, 'utf8');
  const [, cpu, ofRedis] = /^\| Redis, 100000 keys \| Weir \(h2\) \| \d+ \| ([\d.]+) \| ([\d.]+) \|/m.exec(page) ?? [];
  expect([costs.weirUs, costs.redisCounterUs]).toEqual([Number(cpu), Number(ofRedis)]);
  for (const cost of Object.values(costs)) expect(cost).toBeGreaterThan(0);
});

describe('the model', () => {
  test('needs no fewer machines for more decisions', () => {
    const sizes = Array.from({ length: 40 }, (_, at) => 1e3 * 10 ** (at / 8));
    for (const changes of [{}, { denyCache: true, leases: true }, { cluster: true }, { cluster: true, sites: 4 }]) {
      const plans = sizes.map((size) =>
        planFor(atSize(largeLoad, size), { ...nothingOn, ...changes }, costs, defaultPlanning),
      );
      const instances = plans.map((one) => one.instances);
      expect(instances).toEqual(instances.toSorted((one, other) => one - other));
      const nodes = plans.map((one) => one.redisNodes);
      expect(nodes).toEqual(nodes.toSorted((one, other) => one - other));
    }
  });

  test('needs decisions × µs ÷ planned use cores, and as many nodes', () => {
    const { instances, weirUs, redisUs, redisNodes, weirPerSecond } = plan({ cluster: true });
    expect(weirPerSecond).toBe(1e7);
    expect(instances).toBe(Math.ceil((1e7 * weirUs) / 1e6 / 0.5));
    expect(redisNodes).toBe(Math.ceil((1e7 * redisUs) / 1e6 / 0.5));
  });

  test('counts the memory of keys in bytes', () => {
    expect(used(plan(), 'memory of a Redis')).toBeCloseTo((1e9 * 161 * 2) / (32 * 2 ** 30), 6);
    expect(plan({ cluster: true }, { keys: 1e12 }).redisNodes).toBe(Math.ceil((1e12 * 161 * 2) / (32 * 2 ** 30)));
  });

  test('has the same bound of connections as the service', () => {
    const connections = new Map(Object.values(settingsTable).flatMap((rows) => Object.entries(rows))).get(
      'GRPC_MAX_CONNECTIONS',
    );
    const [bound] = plan().bounds.filter(({ name }) => name === 'connections of an instance');
    expect(String(bound?.available)).toBe(connections?.fallback);
  });

  test.each([{ denyCache: true }, { leases: true }])('uses no more of Redis with %j', (changes) => {
    expect(plan(changes).redisUs).toBeLessThan(plan().redisUs);
    expect(plan(changes).redisCalls).toBeLessThan(plan().redisCalls);
  });

  test('has smaller batches on a Cluster, but not in groups', () => {
    expect(plan({ cluster: true }).redisCalls).toBeGreaterThan(0.9);
    expect(plan({ groups: 100 }).redisCalls).toBeLessThan(0.3);
  });

  test('does not count decisions of proxies with quotas, but counts their reports', () => {
    const { weirPerSecond } = plan({ quotaParts: 400 }, { hotKeys: 10 });
    expect(weirPerSecond).toBe(1e7 * 0.8 + (1e5 * 10) / 5);
    expect(used(plan({ quotaParts: 1 }), 'proxies of a quota')).toBe(1e5 / 256);
  });

  test('finds the fewest groups', () => {
    const groups = groupsFor(largeLoad, nothingOn, costs, defaultPlanning);
    expect(used(plan({ groups }), 'cores of a Redis')).toBeLessThanOrEqual(1);
    expect(used(plan({ groups: groups - 1 }), 'cores of a Redis')).toBeGreaterThan(1);
  });

  test('finds the size at which a part is full', () => {
    const size = fullAt('cores of a Redis', nothingOn, largeLoad, costs, defaultPlanning) ?? Number.NaN;
    const at = (part: number) => planFor(atSize(largeLoad, size * part), nothingOn, costs, defaultPlanning);
    expect(used(at(0.98), 'cores of a Redis')).toBeLessThan(1);
    expect(used(at(1.02), 'cores of a Redis')).toBeGreaterThan(1);
  });

  test("has a step that is enough for the largest size, and names Redis' core as the first bound before it", () => {
    const steps = stepsFor(largeLoad, costs, defaultPlanning);
    expect(steps[0]?.plan.bounds[0]?.name).toBe('cores of a Redis');
    expect(steps.filter(isEnough)).not.toEqual([]);
  });
});

describe('a measured row', () => {
  test.each(measuredLeases().filter(({ consistency }) => consistency === 'leased'))(
    'has the calls of the model within a quarter, with leases of $algorithm at $instances instances',
    ({ instances, algorithm, decisions, callsPerDecision }) => {
      const rest = algorithm === 'token_bucket' ? 1_000 : 8_000 - decisions / 2;
      const ratio = leasedCalls(decisions / instances, rest) / callsPerDecision;
      expect(Math.abs(ratio - 1)).toBeLessThan(0.25);
    },
  );

  test('costs Redis less than calls without batches and more than large batches, at a fixed rate', () => {
    const { redisUs } = fixedRateRow();
    expect(redisUs).toBeLessThan((costs.redisCounterUs + costs.redisCallUs) * (7 / 6));
    expect(redisUs).toBeGreaterThan(costs.redisCounterUs);
  });
});

describe('a simulation', () => {
  test.each([200, 2_000, 8_000, 32_000])(
    'makes the calls of the model within a fifth, for batches of %d requests a second',
    (perSecond) => {
      for (const seed of [1, 2, 3]) {
        const ratio = groupedCalls(perSecond, 0.25) / simulateBatches(seed, perSecond, 0.5, 20_000);
        expect(Math.abs(ratio - 1)).toBeLessThan(0.2);
      }
    },
  );

  test.each([1, 4, 16])(
    'makes at most a quarter fewer calls than the model, with leases at %d instances',
    async (instances) => {
      for (const seed of [1, 2, 3]) {
        const simulated = await simulateLeases({ seed, instances, keys: 4, perSecond: 1_000, seconds: 3 });
        const ratio = leasedCalls(1_000 / instances) / simulated;
        expect(ratio).toBeGreaterThan(0.95);
        expect(ratio).toBeLessThan(4 / 3);
      }
    },
  );

  test('makes fewer calls than the model with leases of slow keys', async () => {
    const simulated = await simulateLeases({ seed: 1, instances: 64, keys: 4, perSecond: 1_000, seconds: 3 });
    expect(simulated).toBeLessThan(leasedCalls(1_000 / 64));
  });

  test.each([1, 4, 16, 64])(
    'makes the calls of the model within a twentieth, with the deny cache at %d instances',
    async (instances) => {
      for (const seed of [1, 2, 3]) {
        const simulated = await simulateRefusals({ seed, instances, keys: 20, perSecond: 10, seconds: 60 });
        expect(Math.abs(groupedCalls(10 / instances, 60_000) / simulated - 1)).toBeLessThan(0.05);
      }
    },
  );

  test('has the same result for the same seed', async () => {
    const traffic = { seed: 9, instances: 4, keys: 4, perSecond: 500, seconds: 2 };
    expect(await simulateLeases(traffic)).toBe(await simulateLeases(traffic));
    expect(await simulateRefusals(traffic)).toBe(await simulateRefusals(traffic));
    expect(simulateBatches(9, 1_000, 0.5, 1_000)).toBe(simulateBatches(9, 1_000, 0.5, 1_000));
  });
});
