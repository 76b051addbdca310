import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runMain } from '../bench/main.ts';
import { check } from './checker.ts';
import { readRunLog } from './log.ts';
import { describeViolations, exposureOf, toMarkdown } from './report.ts';
import { runChaos } from './run-chaos.ts';
import { type Topology, topologies } from './schedule.ts';

const usage = `Usage: npm run chaos -- [options]

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
  help: { type: 'boolean', default: false },
} as const;

const MS_PER_MINUTE = 60_000;

runMain(runAll);

async function runAll(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const seed = number('--seed', values.seed, /^\d{1,9}$/, 'a whole number below 1000000000');
  const minutes = number(
    '--minutes',
    values.minutes,
    /^(?!0+(\.0+)?$)\d{1,4}(\.\d+)?$/,
    'a number above 0 and below 10000',
  );
  for (const topology of chosen(values.topology)) {
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
  console.log(`${exposureOf(log)}\n`);
  if (violations.length > 0) console.log(`${describeViolations(violations)}\n`);
  const verdict = violations.length === 0 ? 'every invariant held' : `${violations.length} violations`;
  console.log(`${log.calls.length} calls, ${log.faults.length} faults: ${verdict}\n`);
  return violations.length === 0;
}

function chosen(written: string): readonly Topology[] {
  const found = topologies.filter((topology) => written === 'all' || written === topology);
  if (found.length > 0) return found;
  throw new Error(`--topology must be ${topologies.join(', ')} or all, got '${written}'`);
}

function number(option: string, written: string, pattern: RegExp, expected: string): number {
  if (pattern.test(written)) return Number(written);
  throw new Error(`${option} must be ${expected}, got '${written}'`);
}
