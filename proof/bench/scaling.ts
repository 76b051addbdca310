import { parseArgs } from 'node:util';
import { measuredCosts } from './scaling/costs.ts';
import { defaultPlanning, largeLoad } from './scaling/load.ts';
import { costsTable, measuredTable, partsTable, simulationTable, sizesTable, stepsTable } from './scaling/tables.ts';

export const usage = `Usage: npm run proof -- scaling [options]

Computes the machines that a load needs, step by step, from the measured costs in docs/results: docs/scaling.md.
Measures nothing, and takes a few seconds.

  --decisions N       decisions a second; default: ${largeLoad.decisionsPerSecond}
  --keys N            counters that exist at a time; default: ${largeLoad.keys}
  --proxies N         proxies; default: ${largeLoad.proxies}
  --threads N         connections of a proxy; default: ${largeLoad.threadsPerProxy}
  --hot-share N       share of decisions on hot keys, from 0 to 1; default: ${largeLoad.hotShare}
  --hot-keys N        number of hot keys; default: ${largeLoad.hotKeys}
  --over-share N      share of decisions that are refused, from 0 to 1; default: ${largeLoad.overShare}
  --over-keys N       number of keys with refusals; default: ${largeLoad.overKeys}
  --refusal-ms N      how long a refusal is remembered; default: ${largeLoad.refusalMs}
  --utilization N     planned utilization of a core, above 0, at most 1; default: ${defaultPlanning.utilization}
  --round-trip-ms N   from an instance to Redis and back; default: ${2 * defaultPlanning.gatherMs}
  --node-gib N        memory of a Redis node; default: ${defaultPlanning.redisNodeBytes / 2 ** 30}
  --simulate          also print the simulation, and the comparison with measured rows
`;

export async function run(args: readonly string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      decisions: text,
      keys: text,
      proxies: text,
      threads: text,
      'hot-share': text,
      'hot-keys': text,
      'over-share': text,
      'over-keys': text,
      'refusal-ms': text,
      utilization: text,
      'round-trip-ms': text,
      'node-gib': text,
      simulate: { type: 'boolean', default: false },
    },
  });
  const of = (name: Exclude<keyof typeof values, 'simulate'>, fallback: number, min = 1, max = 1e12): number => {
    const value = Number(values[name] ?? fallback);
    if (value >= min && value <= max) return value;
    throw new Error(`--${name} must be a number from ${min} to ${max}, got '${values[name]}'`);
  };
  const load = {
    decisionsPerSecond: of('decisions', largeLoad.decisionsPerSecond),
    keys: of('keys', largeLoad.keys),
    proxies: of('proxies', largeLoad.proxies),
    threadsPerProxy: of('threads', largeLoad.threadsPerProxy),
    hotShare: of('hot-share', largeLoad.hotShare, 0, 1),
    hotKeys: of('hot-keys', largeLoad.hotKeys),
    overShare: of('over-share', largeLoad.overShare, 0, 1),
    overKeys: of('over-keys', largeLoad.overKeys),
    refusalMs: of('refusal-ms', largeLoad.refusalMs, 0),
  };
  if (load.hotShare + load.overShare > 1) throw new Error('--hot-share and --over-share must be at most 1 together');
  const planning = {
    utilization: of('utilization', defaultPlanning.utilization, 0.01, 1),
    gatherMs: of('round-trip-ms', 2 * defaultPlanning.gatherMs, 0) / 2,
    redisNodeBytes: of('node-gib', defaultPlanning.redisNodeBytes / 2 ** 30) * 2 ** 30,
  };
  const costs = measuredCosts();
  console.log(`Measured costs:\n\n${costsTable(costs)}\n`);
  console.log(`Decisions a second at which a part is full:\n\n${partsTable(load, costs, planning)}\n`);
  console.log(`By size:\n\n${sizesTable(load, costs, planning)}\n`);
  console.log(
    `At ${load.decisionsPerSecond} decisions a second, per decision:\n\n${stepsTable(load, costs, planning)}`,
  );
  if (!values.simulate) return;
  console.log(`\nCalls per decision, simulated:\n\n${await simulationTable()}`);
  console.log(`\nMeasured:\n\n${measuredTable(costs)}`);
}
