import { spawn } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startWeir, type Weir } from '../../test/helpers/weir.ts';
import { countOf } from '../options.ts';
import { processorWaitMs, usageOf } from '../processes/process-tree.ts';
import { median } from '../tables/figures.ts';
import { orderOfRound } from '../tables/order.ts';
import { table } from '../tables/table.ts';
import type { Load, Tally } from './generator/drive.ts';
import { type Generator, startGenerator } from './generator/generator.ts';

export const usage = `Usage: npm run proof -- reload [options]

Calls at a steady rate while the rules stay as they are, while one of their files is rewritten once a second, and while a broken file lies beside them; prints latencies
and the processor time of the service, and by how much p99 grew. Counters are in memory. Exits with 1 if reloads more than double p99.

Latencies are measured at the caller, from when a call was due: they include the time that the load generator waits for a processor. The last columns are the times that it
and the main thread of the service were ready to run and had none. The last row is a control: the rules stay, and an unrelated process uses, once a second, as much processor time as
a reload.

All loads are repeated in rounds, in a different order each time; figures are medians over the rounds. Growth compares the loads of one round.

  --rules N    rules in the file (5000)
  --rate N     calls a second (2000)
  --seconds N  how long each load lasts (5)
  --rounds N   how often each load is repeated (7)
  --help       this text
`;

const options = {
  rules: { type: 'string', default: '5000' },
  rate: { type: 'string', default: '2000' },
  seconds: { type: 'string', default: '5' },
  rounds: { type: 'string', default: '7' },
} as const;

const DOMAIN = 'bench';
const REWRITE_INTERVAL_MS = 1_000;
/** Time until the last reload of a load has ended, and the rules are valid again and have been compared. */
const SETTLE_MS = 5_000;
const CONNECTIONS = 4;
const MS_PER_SECOND = 1_000;
const MAX_GROWTH = 2;
/** A program that uses `cpuMs` of processor time in each `intervalMs`. */
const BURN = `
const [cpuMs, intervalMs] = process.argv.slice(1).map(Number);
setInterval(() => {
  const start = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(start);
    if ((user + system) / 1_000 >= cpuMs) return;
  }
}, intervalMs);
`;

/** A condition under which the calls are made. */
interface Condition {
  readonly name: string;
  /** @returns a function that ends the condition */
  begin(): () => void;
}

/** The result of one load. */
interface Sample extends Tally {
  /** The fraction of one processor. */
  readonly cpu: number;
  /** Milliseconds per second; NaN if the kernel does not count them. */
  readonly serviceWait: number;
  readonly generatorWait: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const [rules, rate, seconds, rounds] = (['rules', 'rate', 'seconds', 'rounds'] as const).map((name) =>
    countOf(`--${name}`, values[name]),
  ) as [number, number, number, number];
  const folder = mkdtempSync(join(tmpdir(), 'reload-'));
  let version = 0;
  const rewrite = (): void => {
    const path = join(folder, 'rules.yaml');
    writeFileSync(`${path}.new`, ruleFile(rules, ++version));
    renameSync(`${path}.new`, path);
  };
  rewrite();
  const generator = startGenerator();
  const weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  const load: Load = {
    port: weir.grpcPort,
    connections: CONNECTIONS,
    pace: { kind: 'open', callsPerSecond: rate, end: { elapsedMs: seconds * MS_PER_SECOND } },
    question: { domain: DOMAIN, descriptors: [{ key: 'user', value: 'user', values: 1_000 }] },
  };
  const samples: Sample[][] = [];
  const cpuOf = (at: number): number => median((samples[at] ?? []).map(({ cpu }) => cpu));
  const conditions = conditionsOf(folder, rewrite, () => (cpuOf(1) - cpuOf(0)) * REWRITE_INTERVAL_MS);
  try {
    console.error('warm up …');
    await sample(load, weir, generator);
    for (let round = 0; round < rounds; round++)
      for (const at of orderOfRound(round, conditions.length)) {
        const condition = conditions[at] as Condition; // the order has a position for each condition
        console.error(`round ${round + 1} of ${rounds}: ${condition.name} …`);
        const end = condition.begin();
        const sampled = await sample(load, weir, generator).finally(end);
        samples[at] = [...(samples[at] ?? []), sampled];
        await sleep(SETTLE_MS);
      }
    report(conditions, samples, { rules, rate, reloads: weir.output().match(/loaded \d+ rules/g)?.length ?? 0 });
  } finally {
    generator.stop();
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
}

/** The first condition is the baseline. @param reloadCpuMs  processor time of the second condition per interval */
const conditionsOf = (folder: string, rewrite: () => void, reloadCpuMs: () => number): readonly Condition[] => [
  { name: 'nothing changes', begin: () => () => {} },
  {
    name: 'the file is rewritten once a second',
    begin() {
      const timer = setInterval(rewrite, REWRITE_INTERVAL_MS);
      return () => clearInterval(timer);
    },
  },
  {
    name: 'a broken file lies beside it',
    begin() {
      writeFileSync(join(folder, 'broken.yaml'), 'domain: [\n');
      return () => rmSync(join(folder, 'broken.yaml'));
    },
  },
  {
    name: 'another process instead',
    begin() {
      const bursts = [String(reloadCpuMs()), String(REWRITE_INTERVAL_MS)];
      const busy = spawn(process.execPath, ['-e', BURN, ...bursts], { stdio: 'ignore' });
      return () => void busy.kill('SIGKILL');
    },
  },
];

/** Runs the load once. */
async function sample(load: Load, weir: Weir, generator: Generator): Promise<Sample> {
  const state = () => ({
    cpuMs: usageOf(weir.pid).cpuMs,
    serviceWaitMs: processorWaitMs(weir.pid) ?? Number.NaN,
    generatorWaitMs: processorWaitMs(generator.pid) ?? Number.NaN,
  });
  const before = state();
  const tally = await generator.drive(load);
  const after = state();
  const perSecond = (ms: number): number => (ms / tally.elapsedMs) * MS_PER_SECOND;
  return {
    ...tally,
    cpu: (after.cpuMs - before.cpuMs) / tally.elapsedMs,
    serviceWait: perSecond(after.serviceWaitMs - before.serviceWaitMs),
    generatorWait: perSecond(after.generatorWaitMs - before.generatorWaitMs),
  };
}

/** Prints a line for each condition, and whether reloads keep p99 within its bound. */
function report(
  conditions: readonly Condition[],
  samples: readonly (readonly Sample[])[],
  { rules, rate, reloads }: { readonly rules: number; readonly rate: number; readonly reloads: number },
): void {
  const [calm = []] = samples;
  const growthOf = (ofCondition: readonly Sample[]): readonly number[] =>
    ofCondition.map(({ p99Ms }, round) => p99Ms / (calm[round]?.p99Ms ?? Number.NaN)).sort((a, b) => a - b);
  const lines = conditions.map(({ name }, at) => {
    const ofCondition = samples[at] ?? [];
    const middle = (of: (sample: Sample) => number): number => median(ofCondition.map(of));
    const growth = growthOf(ofCondition);
    return [
      name,
      middle(({ p50Ms }) => p50Ms).toFixed(2),
      middle(({ p99Ms }) => p99Ms).toFixed(2),
      at === 0 ? '' : `${median(growth).toFixed(2)} (${growth[0]?.toFixed(2)} to ${growth.at(-1)?.toFixed(2)})`,
      `${(middle(({ cpu }) => cpu) * 100).toFixed(0)} %`,
      ...[middle(({ serviceWait }) => serviceWait), middle(({ generatorWait }) => generatorWait)].map((ms) =>
        Number.isNaN(ms) ? '' : ms.toFixed(1),
      ),
    ];
  });
  const head = [
    ...[`${rules} rules, ${rate} calls/s`, 'p50 ms', 'p99 ms', 'p99 grows by'],
    ...['processor', 'service waits, ms/s', 'generator waits, ms/s'],
  ];
  console.log(table(head, 1, lines));
  const growth = median(growthOf(samples[1] ?? []));
  const verdict = growth <= MAX_GROWTH ? 'within' : 'above';
  console.log(
    `\n${reloads - 1} reloads. They multiply p99 by ${growth.toFixed(2)}: ${verdict} the bound of ${MAX_GROWTH}.`,
  );
  if (growth > MAX_GROWTH) process.exitCode = 1;
}

/** Each version has other limits, so that all rules are compiled again. */
function ruleFile(count: number, version: number): string {
  const rules = Array.from({ length: count }, (_, at) => [
    `  - key: key-${at % 50}`,
    `    value: value-${at}`,
    `    rate_limit: {unit: hour, requests_per_unit: ${version}}`,
  ]);
  const user = '  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}';
  return [`domain: ${DOMAIN}`, 'descriptors:', user, ...rules.flat(), ''].join('\n');
}
