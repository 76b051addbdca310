import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startWeir, type Weir } from '../test/helpers/weir.ts';
import { startBusyProcess } from './busy.ts';
import type { Load, Tally } from './generator/drive.ts';
import { type Generator, startGenerator } from './generator/generator.ts';
import { runMain } from './main.ts';
import { usageOf } from './process-tree.ts';
import { processorWaitMs } from './waits.ts';

const usage = `Usage: npm run reload -- [options]

Calls at a steady rate while the rules stay as they are, while one of their files is rewritten once a second, and while a broken file lies beside them; prints latencies
and the processor time of the service, and by how much p99 grew. Counters are in memory.

Latencies are those of the caller, from when a call was due: they include what the load generator waits for a processor. The last columns say how long it and the main
thread of the service were ready to run and had none. The last row is a control: the rules stay, and an unrelated process uses, once a second, as much processor time as
a reload.

  --rules N    rules in the file (5000)
  --rate N     calls a second (2000)
  --seconds N  how long each load lasts (10)
  --help       this text
`;

const options = {
  rules: { type: 'string', default: '5000' },
  rate: { type: 'string', default: '2000' },
  seconds: { type: 'string', default: '10' },
  help: { type: 'boolean', default: false },
} as const;

const DOMAIN = 'bench';
const REWRITE_INTERVAL_MS = 1_000;
const CONNECTIONS = 4;
const MS_PER_SECOND = 1_000;

runMain(measure);

async function measure(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) return void process.stdout.write(usage);
  const folder = mkdtempSync(join(tmpdir(), 'reload-'));
  let version = 0;
  const rewrite = (): void => {
    const path = join(folder, 'rules.yaml');
    writeFileSync(`${path}.new`, ruleFile(Number(values.rules), ++version));
    renameSync(`${path}.new`, path);
  };
  rewrite();
  const generator = startGenerator();
  const weir = await startWeir({ OVERLOAD_LAG: '0', LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  const load: Load = {
    port: weir.grpcPort,
    connections: CONNECTIONS,
    pace: { kind: 'open', callsPerSecond: Number(values.rate), end: { elapsedMs: Number(values.seconds) * 1_000 } },
    question: { domain: DOMAIN, descriptors: [{ key: 'user', value: 'user', values: 1_000 }] },
  };
  const run = (name: string): Promise<Row> => measureRow(name, { load, weir, generator });
  try {
    console.log(
      `| ${values.rules} rules, ${values.rate} calls/s | p50 ms | p99 ms | processor | service waits, ms/s | generator waits, ms/s |`,
    );
    console.log('| --- | ---: | ---: | ---: | ---: | ---: |');
    await run('warm up');
    const calm = await run('nothing changes');
    const timer = setInterval(rewrite, REWRITE_INTERVAL_MS);
    const reloads = await run('the file is rewritten once a second').finally(() => clearInterval(timer));
    const loads = weir.output().match(/loaded \d+ rules/g)?.length ?? 0;
    writeFileSync(join(folder, 'broken.yaml'), 'domain: [\n');
    const broken = await run('a broken file lies beside it');
    rmSync(join(folder, 'broken.yaml'));
    await sleep(2 * REWRITE_INTERVAL_MS); // the rules are valid again, and have been compared
    const busy = startBusyProcess((reloads.cpu - calm.cpu) * REWRITE_INTERVAL_MS, REWRITE_INTERVAL_MS);
    const control = await run('another process instead').finally(() => busy.stop());
    const growth = ({ p99Ms }: Tally): string => (p99Ms / calm.p99Ms).toFixed(1);
    console.log(
      `\np99 by ${growth(reloads)} in ${loads - 1} reloads, by ${growth(broken)} beside the broken file, by ${growth(control)} with the other process`,
    );
  } finally {
    generator.stop();
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
}

interface Row extends Tally {
  /** Of one processor. */
  readonly cpu: number;
}

/** Makes the load once, and prints its line of the table. */
async function measureRow(
  name: string,
  { load, weir, generator }: { readonly load: Load; readonly weir: Weir; readonly generator: Generator },
): Promise<Row> {
  console.error(`${name} …`);
  const state = () => ({
    cpuMs: usageOf(weir.pid).cpuMs,
    serviceWaitMs: processorWaitMs(weir.pid) ?? Number.NaN,
    generatorWaitMs: processorWaitMs(generator.pid) ?? Number.NaN,
  });
  const before = state();
  const tally = await generator.drive(load);
  const after = state();
  const cpu = (after.cpuMs - before.cpuMs) / tally.elapsedMs;
  const waits = [after.serviceWaitMs - before.serviceWaitMs, after.generatorWaitMs - before.generatorWaitMs];
  const cells = [
    ...[tally.p50Ms.toFixed(1), tally.p99Ms.toFixed(1), `${(cpu * 100).toFixed(0)} %`],
    ...waits.map((ms) => (Number.isNaN(ms) ? '' : ((ms / tally.elapsedMs) * MS_PER_SECOND).toFixed(1))),
  ];
  console.log(`| ${name} | ${cells.join(' | ')} |`);
  return { ...tally, cpu };
}

/** Every version has other limits, so that all rules are compiled anew. */
function ruleFile(count: number, version: number): string {
  const rules = Array.from({ length: count }, (_, at) => [
    `  - key: key-${at % 50}`,
    `    value: value-${at}`,
    `    rate_limit: {unit: hour, requests_per_unit: ${version}}`,
  ]);
  const user = '  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}';
  return [`domain: ${DOMAIN}`, 'descriptors:', user, ...rules.flat(), ''].join('\n');
}
