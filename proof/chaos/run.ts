import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseChoice, parseCount, parseNumber } from '../options.ts';
import { check } from './checker.ts';
import { readRunLog } from './log.ts';
import { describeExposure, describeViolations, toMarkdown } from './report.ts';
import { topologies } from './rules.ts';
import { runChaos } from './run-chaos.ts';

export const usage = `Usage: npm run proof -- chaos [options]

Runs the service and its counters on this machine, injects faults into both, and checks its invariants from the logs of its callers.
Exits with 1 if one is violated.

  --seed N          seed that determines the faults and their times (1)
  --minutes M       duration, with each topology (2)
  --topology NAME   single, redis6, sentinel, cluster, memcached or all (all)
  --keep            also keep the logs of a run without violations
  --help            this text
`;

const options = {
  seed: { type: 'string', default: '1' },
  minutes: { type: 'string', default: '2' },
  topology: { type: 'string', default: 'all' },
  keep: { type: 'boolean', default: false },
} as const;

const MS_PER_MINUTE = 60_000;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const seed = parseCount('--seed', values.seed);
  const minutes = parseNumber('--minutes', values.minutes, [0.01, 9_999]);
  const chosen = parseChoice('--topology', values.topology, [...topologies, 'all']);
  for (const topology of chosen === 'all' ? topologies : [chosen]) {
    const folder = await mkdtemp(join(tmpdir(), `chaos-${topology}-`));
    const isWhole = await runOne({ topology, seed, lengthMs: minutes * MS_PER_MINUTE, folder });
    if (!isWhole) process.exitCode = 1;
    if (isWhole && !values.keep) await rm(folder, { recursive: true });
    else console.log(`The logs are in ${folder}\n`);
  }
}

/** Whether every invariant held. */
async function runOne(run: Parameters<typeof runChaos>[0]): Promise<boolean> {
  console.log(`# ${run.topology}, seed ${run.seed}\n`);
  await runChaos({ ...run, onStep: (step) => console.error(`${step} …`) });
  const log = readRunLog(run.folder);
  const violations = check(log);
  console.log(`${toMarkdown(log)}\n`);
  console.log(`${describeExposure(log)}\n`);
  if (violations.length > 0) console.log(`${describeViolations(violations)}\n`);
  const verdict = violations.length === 0 ? 'every invariant held' : `${violations.length} violations`;
  console.log(`${log.calls.length} calls, ${log.faults.length} faults: ${verdict}\n`);
  return violations.length === 0;
}
