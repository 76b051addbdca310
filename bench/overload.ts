import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startRedis } from '../test/helpers/redis.ts';
import { startWeir } from '../test/helpers/weir.ts';
import type { Load, Tally } from './generator/drive.ts';
import { startGenerator } from './generator/generator.ts';
import { runMain } from './main.ts';
import { type Usage, usageOf } from './process-tree.ts';

const usage = `Usage: npm run overload -- [options]

Overloads the service in two ways, and prints the outcomes of the calls:

  small   one descriptor, counters in a Redis that is started for it: ten times, then a hundred times as many calls in flight as keep it busy, each
          answer starting the next call at once, then as many as before. Exits with 1 if calls are still refused a second after that.
  large   100 descriptors, counters in memory: five times as many calls a second as it can answer, regardless of the outcomes of earlier calls. Exits
          with 1 if less than two thirds of its capacity is answered within 20 ms of the time when the call was due.

  --only TEXT        small or large (both)
  --seconds N        how long each overload lasts (60)
  --transport TEXT   value of GRPC_TRANSPORT (h2)
  --lag TEXT         value of OVERLOAD_LAG (5ms)
  --help             this text
`;

const options = {
  only: { type: 'string', default: '' },
  seconds: { type: 'string', default: '60' },
  transport: { type: 'string', default: 'h2' },
  lag: { type: 'string', default: '5ms' },
  help: { type: 'boolean', default: false },
} as const;

const DOMAIN = 'bench';
const RULES = `
domain: ${DOMAIN}
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
`;
const BYTES_PER_MIB = 1024 * 1024;
const SAMPLE_INTERVAL_MS = 250;
const NORMAL = { connections: 4, callsInFlight: 25, ms: 5_000 };
const TEN_TIMES = { connections: 40, callsInFlight: 25 };
const HUNDRED_TIMES = { connections: 100, callsInFlight: 100 };
const OVERLOAD_FACTOR = 5;
const MIN_SHARE = 2 / 3;
/** An overloaded service uses one whole core, unless it or the load waits for other processes. */
const MIN_CORES = 0.8;

type Environment = Readonly<Record<string, string>>;

runMain(measure);

async function measure(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) return void process.stdout.write(usage);
  const generator = startGenerator();
  const folder = mkdtempSync(join(tmpdir(), 'overload-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = { GRPC_TRANSPORT: values.transport, OVERLOAD_LAG: values.lag, STORE_TIMEOUT: '15ms' };
  const run: Run = async (name, weir, load, calls) => {
    console.error(`${name}, ${lengthOf(load)} …`);
    const memory = watchMemory(weir.pid);
    const before = usageOf(weir.pid).cpuMs;
    const tally = await generator.drive(load);
    const used = { cpuMs: usageOf(weir.pid).cpuMs - before, memoryBytes: memory.stop() };
    console.log(rowOf(name, calls, tally, used));
    return { ...tally, cores: used.cpuMs / tally.elapsedMs };
  };
  const ms = Number(values.seconds) * 1_000;
  try {
    if (values.only !== 'large') await overloadWithSmallCalls(env, folder, ms, run);
    if (values.only !== 'small') await overloadWithLargeCalls(env, folder, ms, run);
  } finally {
    generator.stop();
    rmSync(folder, { recursive: true });
  }
}

const lengthOf = ({ pace: { end } }: Load): string =>
  'elapsedMs' in end ? `${end.elapsedMs / 1_000} s` : `${end.calls} calls`;

/** Drives one load, and prints its row; `calls` is the text of the second column. */
type Run = (name: string, weir: { readonly pid: number }, load: Load, calls: string) => Promise<TallyWithCores>;

interface TallyWithCores extends Tally {
  /** The average number of cores that the service used. */
  readonly cores: number;
}

const printHead = (calls: string): void => {
  console.log(
    `| load | ${calls} | decided/s | in time/s | refused/s | p50 ms | p99 ms | most memory MiB | cores | of the load |`,
  );
  console.log(`| --- |${' ---: |'.repeat(9)}`);
};

async function overloadWithSmallCalls(env: Environment, folder: string, ms: number, run: Run): Promise<void> {
  const redis = await startRedis();
  const weir = await startWeir({ ...env, REDIS_URL: redis.url }, { args: ['--rules', folder] });
  const drive = (name: string, load: typeof NORMAL) =>
    run(name, weir, loadOn(weir.grpcPort, load), String(load.connections * load.callsInFlight));
  try {
    printHead('calls in flight');
    await drive('warm up', NORMAL);
    await drive('normal', NORMAL);
    await drive('ten times', { ...TEN_TIMES, ms });
    await drive('a hundred times', { ...HUNDRED_TIMES, ms });
    await drive('normal again, first second', { ...NORMAL, ms: 1_000 });
    const { answers } = await drive('normal again', NORMAL);
    if (answers.REFUSED > 0)
      throw new Error(`${answers.REFUSED} calls were refused more than a second after the overload`);
  } finally {
    await weir.stop();
    await redis.stop();
  }
}

async function overloadWithLargeCalls(env: Environment, folder: string, ms: number, run: Run): Promise<void> {
  const weir = await startWeir(env, { args: ['--rules', folder] });
  const closed = { ...largeLoadOn(weir.grpcPort), connections: 1 };
  try {
    console.log('');
    printHead('calls/s');
    await run('warm up', weir, closed, 'closed loop');
    const { answers, elapsedMs } = await run('capacity', weir, closed, 'closed loop');
    const capacity = ((answers.OK + answers.OVER_LIMIT) / elapsedMs) * 1_000;
    const callsPerSecond = Math.round(capacity * OVERLOAD_FACTOR);
    const pace = { kind: 'open', callsPerSecond, end: { elapsedMs: ms } } as const;
    const overloaded = await run(
      `${OVERLOAD_FACTOR} times capacity`,
      weir,
      { ...closed, connections: 20, pace },
      String(callsPerSecond),
    );
    const share = ((overloaded.inTime / overloaded.elapsedMs) * 1_000) / capacity;
    console.log(`\n${(share * 100).toFixed(0)} % of capacity was answered in time`);
    if (overloaded.cores < MIN_CORES)
      console.log(
        `the service used ${overloaded.cores.toFixed(2)} cores, less than an overload takes: it or the load waited for other work on this machine`,
      );
    if (share < MIN_SHARE)
      throw new Error(`less than ${(MIN_SHARE * 100).toFixed(0)} % of capacity was answered in time`);
  } finally {
    await weir.stop();
  }
}

/** Four calls in flight: enough to keep the process busy, and few enough that none is refused. */
const largeLoadOn = (port: number): Load => ({
  port,
  connections: 1,
  pace: { kind: 'closed', callsInFlight: 4, end: { elapsedMs: 5_000 } },
  question: {
    domain: DOMAIN,
    descriptors: Array.from({ length: 100 }, (_, at) => ({ key: 'user', value: `user-${at}` })),
  },
  mayRefuse: true,
});

const loadOn = (port: number, { connections, callsInFlight, ms }: typeof NORMAL): Load => ({
  port,
  connections,
  pace: { kind: 'closed', callsInFlight, end: { elapsedMs: ms } },
  question: { domain: DOMAIN, descriptors: [{ key: 'user', value: 'user', values: 1_000 }] },
  mayRefuse: true,
});

/** Tracks the peak memory of a process from now on. */
function watchMemory(pid: number) {
  let most = 0;
  const sample = () => {
    most = Math.max(most, usageOf(pid).memoryBytes);
  };
  const timer = setInterval(sample, SAMPLE_INTERVAL_MS);
  return {
    stop(): number {
      clearInterval(timer);
      sample();
      return most;
    },
  };
}

/** @param service  its CPU time and peak memory */
function rowOf(
  name: string,
  calls: string,
  { answers, inTime, elapsedMs, p50Ms, p99Ms, cpuMs }: Tally,
  service: Usage,
): string {
  const perSecond = (count: number): string => ((count / elapsedMs) * 1_000).toFixed(0);
  const cells = [
    name,
    calls,
    perSecond(answers.OK + answers.OVER_LIMIT),
    perSecond(inTime),
    perSecond(answers.REFUSED),
    p50Ms.toFixed(1),
    p99Ms.toFixed(1),
    (service.memoryBytes / BYTES_PER_MIB).toFixed(0),
    (service.cpuMs / elapsedMs).toFixed(2),
    (cpuMs / elapsedMs).toFixed(2),
  ];
  return `| ${cells.join(' | ')} |`;
}
