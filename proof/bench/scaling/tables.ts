import { table } from '../../tables/table.ts';
import { groupedCalls, leasedCalls } from './calls.ts';
import { type Costs, fixedRateRow, measuredLeases } from './costs.ts';
import { nothingOn, type Planning, type ScaledLoad, type Switches } from './load.ts';
import { type BoundedPart, planFor, usedFraction } from './model.ts';
import { simulateBatches, simulateLeases, simulateRefusals } from './simulation.ts';
import { atSize, fullAt, isEnough, LARGEST_SIZE, stepsFor } from './steps.ts';

/** The resources for the load with each configuration. */
export function stepsTable(load: ScaledLoad, costs: Costs, planning: Planning): string {
  const head = [
    'switched on',
    'instances',
    'Redis nodes',
    'µs of Weir',
    'µs of Redis',
    'calls to Redis',
    'first bound',
  ];
  const lines = stepsFor(load, costs, planning).map(({ name, plan }) => [
    ...[name, inWords(plan.instances), inWords(plan.redisNodes)],
    ...[plan.weirUs.toFixed(1), plan.redisUs.toFixed(1), plan.redisCalls.toFixed(2)],
    boundText(plan.bounds[0]),
  ]);
  return table(head, 1, lines);
}

/** The simplest configuration that is enough for a thousandth, a hundredth, a tenth, and all of the load. */
export function sizesTable(load: ScaledLoad, costs: Costs, planning: Planning): string {
  const head = [
    ...['decisions/s', 'keys', 'proxies', 'one Redis alone', 'simplest that is enough'],
    ...['instances', 'Redis nodes', 'its first bound'],
  ];
  const lines = [1e-3, 1e-2, 1e-1, 1].map((factor) => {
    const own = atSize(load, load.decisionsPerSecond * factor);
    const steps = stepsFor(own, costs, planning);
    const found = steps.find(isEnough);
    return [
      ...[own.decisionsPerSecond, own.keys, own.proxies].map(inWords),
      boundText(steps[0]?.plan.bounds[0]),
      ...(found
        ? [found.name, inWords(found.plan.instances), inWords(found.plan.redisNodes), boundText(found.plan.bounds[0])]
        : ['none', '', '', '']),
    ];
  });
  return table(head, 0, lines);
}

const local = { denyCache: true, leases: true };
const shapes: readonly (readonly [name: string, changes: Partial<Switches>])[] = [
  ['one Redis', {}],
  ['deny cache and leases', local],
  ['and Cluster', { ...local, cluster: true }],
];

/** The size at which each part is full. */
export function partsTable(load: ScaledLoad, costs: Costs, planning: Planning): string {
  const { bounds } = planFor(load, nothingOn, costs, planning);
  const lines = bounds
    .map(({ name }) => ({
      name,
      sizes: shapes.map(([, changes]) => fullAt(name, { ...nothingOn, ...changes }, load, costs, planning)),
    }))
    .toSorted((one, other) => (one.sizes[0] ?? Infinity) - (other.sizes[0] ?? Infinity))
    .map(({ name, sizes }) => [
      name,
      ...sizes.map((size) => (size === undefined ? `above ${inWords(LARGEST_SIZE)}` : rounded(size))),
    ]);
  return table(['part', ...shapes.map(([name]) => `${name}, full at`)], 1, lines);
}

/** The input costs of the model. */
export function costsTable(costs: Costs): string {
  const lines = [
    ['a decision of Weir: many keys, large batches', costs.weirUs, 'row `Redis, 100000 keys`'],
    ['a refusal from the deny cache', costs.weirRefusalUs, 'row `Redis, a key over its limit, deny cache`'],
    ['a decision without Redis, as from a lease', costs.weirLocalUs, 'row `memory, 100000 keys`'],
    ['a call that is alone in a read', costs.weirReadUs, 'row `64 connections of one call`, less `one hot key`'],
    ['a call to Redis, in Weir', costs.weirCallUs, 'row `without batching`, less the row before'],
    ['a call to Redis, in Redis', costs.redisCallUs, 'the same rows'],
    ['a counter of a call, in Redis', costs.redisCounterUs, 'row `Redis, 100000 keys`'],
  ] as const;
  return table(
    ['what', 'µs', 'from [results/bench.md](results/bench.md)'],
    1,
    lines.map(([what, us, from]) => [what, us.toFixed(1), from]),
  ).replace(/ ---: \|$/m, ' --- |');
}

const SEED = 7;
const ROUND_TRIP_MS = 0.5;

/** Calls per decision by the model, and by a simulation with simulated clocks. */
export async function simulationTable(): Promise<string> {
  const lines: string[][] = [];
  const add = (what: string, load: string, model: number, simulated: number): void => {
    lines.push([what, load, model.toFixed(3), simulated.toFixed(3), (model / simulated).toFixed(2)]);
  };
  for (const perSecond of [200, 2_000, 8_000, 32_000]) {
    const simulated = simulateBatches(SEED, perSecond, ROUND_TRIP_MS, 20_000);
    add('batches', `${inWords(perSecond)} requests/s`, groupedCalls(perSecond, ROUND_TRIP_MS / 2), simulated);
  }
  for (const instances of [1, 4, 16, 64]) {
    const traffic = { seed: SEED, instances, keys: 4, perSecond: 1_000, seconds: 5 };
    const model = leasedCalls(traffic.perSecond / instances);
    add('leases', `${instancesInWords(instances)}, 1,000 hits/s of a key`, model, await simulateLeases(traffic));
  }
  for (const instances of [1, 4, 16, 64]) {
    const traffic = { seed: SEED, instances, keys: 20, perSecond: 10, seconds: 60 };
    const model = groupedCalls(traffic.perSecond / instances, 60_000);
    add('deny cache', `${instancesInWords(instances)}, 10 hits/s of a key`, model, await simulateRefusals(traffic));
  }
  return table(['part', 'load', 'model', 'simulated', 'model ÷ simulated'], 2, lines);
}

/** The model's predictions for measured rows that are not among its inputs. */
export function measuredTable(costs: Costs): string {
  const fixed = fixedRateRow();
  const leases = measuredLeases().filter(({ consistency }) => consistency === 'leased');
  const lines = [
    ['µs of Redis at a fixed rate, without batches', costs.redisCounterUs + costs.redisCallUs, fixed.redisUs, 1],
    ['µs of Weir, the same', costs.weirUs + costs.weirCallUs + costs.weirReadUs, fixed.weirUs, 1],
    ...leases.map(({ instances, algorithm, decisions, callsPerDecision }) => {
      const rest = algorithm === 'token_bucket' ? BURST : LIMIT - decisions / 2;
      const name = `calls to Redis, \`${algorithm}\` leased, ${instancesInWords(instances)}`;
      return [name, leasedCalls(decisions / instances, rest), callsPerDecision, 4] as const;
    }),
  ] as const;
  return table(
    ['what', 'model', 'measured', 'model ÷ measured'],
    1,
    lines.map(([what, model, measured, digits]) => [
      what,
      ...[model.toFixed(digits), measured.toFixed(digits), (model / measured).toFixed(2)],
    ]),
  );
}

/** The limit and the burst of `npm run proof -- leases`. */
const LIMIT = 8_000;
const BURST = 1_000;

const inWords = (count: number): string => Math.round(count).toLocaleString('en-US');

const instancesInWords = (count: number): string => `${count} ${count === 1 ? 'instance' : 'instances'}`;

/** Rounds to two significant digits. */
const rounded = (size: number): string => Number(size.toPrecision(2)).toLocaleString('en-US');

/** `cores of a Redis: 3.4 ×` if it is not enough, else `cores of a Redis: 71 %`. */
function boundText(part: BoundedPart | undefined): string {
  if (!part) return '';
  const used = usedFraction(part);
  return `${part.name}: ${used > 1 ? `**${used.toPrecision(3)} ×**` : `${Math.round(used * 100)} %`}`;
}
