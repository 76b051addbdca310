import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startRedis } from '../../../test/helpers/redis.ts';
import { startWeir, type Weir } from '../../../test/helpers/weir.ts';
import { temporaryFolder, withCleanup } from '../../processes/cleanup.ts';
import { readUsage, type Usage } from '../../processes/process-tree.ts';
import { MIB } from '../../tables/figures.ts';
import { tableHead, tableRow } from '../../tables/table.ts';
import { IN_TIME_MS, type Load, type Tally } from '../generator/drive.ts';
import type { Generator } from '../generator/generator.ts';
import { DOMAIN } from '../shapes.ts';
import type { Environment } from './proxied.ts';

const RULES = `
domain: ${DOMAIN}
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
`;
const SAMPLE_INTERVAL_MS = 250;
const NORMAL = { connections: 4, callsInFlight: 25, ms: 5_000 };
const TEN_TIMES = { connections: 40, callsInFlight: 25 };
const HUNDRED_TIMES = { connections: 100, callsInFlight: 100 };
const OVERLOAD_FACTOR = 10;
const MIN_SHARE = 0.8;
/** Maximum memory in the second half of an overload, as a multiple of that in the first half. */
const MAX_GROWTH = 1.2;
/** An overloaded service uses one whole core, unless it or the load waits for other processes. */
const MIN_CORES = 0.8;

const totalLength = ({ pace: { end } }: Load): string =>
  'elapsedMs' in end ? `${end.elapsedMs / 1_000} s` : `${end.calls} calls`;

interface Options {
  readonly generator: Generator;
  /** Settings of the service. */
  readonly env: Environment;
}

interface Outcome extends Tally {
  /** The average number of cores that the service used. */
  readonly cores: number;
  /** Maximum memory in the second half, as a multiple of that in the first half. */
  readonly growth: number;
}

/** Starts the service with rules for users, and stops it afterwards. */
const withWeir = (env: Environment, use: (weir: Weir) => Promise<void>): Promise<void> =>
  withCleanup(async (onEnd) => {
    const folder = temporaryFolder('overload', onEnd);
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    const weir = await startWeir(env, { args: ['--rules', folder], isPatient: false });
    onEnd(weir.stop);
    await use(weir);
  });

/** Drives one load, and prints its row; `calls` is the text of the second column. */
async function drive(generator: Generator, { pid }: Weir, load: Load, [name, calls]: [string, string]) {
  console.error(`${name}, ${totalLength(load)} …`);
  const memory = watchMemory(pid);
  const before = readUsage(pid).cpuMs;
  const tally = await generator.drive(load);
  const cpuMs = readUsage(pid).cpuMs - before;
  const { maxBytes, growth } = memory.stop();
  console.log(formatRow(name, calls, tally, { cpuMs, memoryBytes: maxBytes }));
  return { ...tally, cores: cpuMs / tally.elapsedMs, growth } satisfies Outcome;
}

const printHead = (calls: string): void => {
  const times = ['decided/s', 'in time/s', 'undecided/s', 'p50 ms', 'p99 ms'];
  console.log(`\n${tableHead(['load', calls, ...times, 'most memory MiB', 'cores', 'of the load'])}`);
};

/** @throws  calls are not decided more than a second after the overload */
export async function overloadWithSmallCalls({ generator, env }: Options, ms: number): Promise<void> {
  const redis = await startRedis();
  try {
    await withWeir({ REDIS_URL: redis.url, ...env }, async (weir) => {
      const run = (name: string, load: typeof NORMAL) =>
        drive(generator, weir, loadOn(weir.grpcPort, load), [name, String(load.connections * load.callsInFlight)]);
      printHead('calls in flight');
      await run('warm up', NORMAL);
      await run('normal', NORMAL);
      await run('ten times', { ...TEN_TIMES, ms });
      await run('a hundred times', { ...HUNDRED_TIMES, ms });
      await run('normal again, first second', { ...NORMAL, ms: 1_000 });
      const { answers } = await run('normal again', NORMAL);
      if (answers.REFUSED > 0)
        throw new Error(`${answers.REFUSED} calls were not decided more than a second after the overload`);
    });
  } finally {
    await redis.stop();
  }
}

/** @throws  too little of the capacity is answered in time, or memory grows */
export async function overloadWithLargeCalls({ generator, env }: Options, ms: number): Promise<void> {
  await withWeir(env, async (weir) => {
    const closed = largeLoadOn(weir.grpcPort);
    printHead('calls/s');
    await drive(generator, weir, closed, ['warm up', 'closed loop']);
    const { answers, elapsedMs } = await drive(generator, weir, closed, ['capacity', 'closed loop']);
    const capacity = ((answers.OK + answers.OVER_LIMIT) / elapsedMs) * 1_000;
    const callsPerSecond = Math.round(capacity * OVERLOAD_FACTOR);
    const pace = { kind: 'open', callsPerSecond, end: { elapsedMs: ms } } as const;
    const load = { ...closed, connections: 20, pace, deadlineMs: IN_TIME_MS };
    const overloaded = await drive(generator, weir, load, [
      `${OVERLOAD_FACTOR} times capacity`,
      String(callsPerSecond),
    ]);
    const share = ((overloaded.inTime / overloaded.elapsedMs) * 1_000) / capacity;
    console.log(`\n${(share * 100).toFixed(0)} % of capacity was answered in time`);
    if (overloaded.cores < MIN_CORES)
      console.log(
        `the service used ${overloaded.cores.toFixed(2)} cores, less than an overload takes: it or the load waited for other work on this machine`,
      );
    if (share < MIN_SHARE)
      throw new Error(`less than ${(MIN_SHARE * 100).toFixed(0)} % of capacity was answered in time`);
    if (overloaded.growth > MAX_GROWTH)
      throw new Error(
        `memory must not grow during an overload; its second half took ${overloaded.growth.toFixed(2)} times as much`,
      );
  });
}

/** Four calls in flight: enough to keep the process busy. */
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

/** Tracks the memory of a process from now on. */
function watchMemory(pid: number) {
  const samples: number[] = [];
  const sample = () => void samples.push(readUsage(pid).memoryBytes);
  const timer = setInterval(sample, SAMPLE_INTERVAL_MS);
  sample();
  return {
    stop(): { readonly maxBytes: number; readonly growth: number } {
      clearInterval(timer);
      sample();
      const half = Math.ceil(samples.length / 2);
      const [first, second] = [Math.max(...samples.slice(0, half)), Math.max(...samples.slice(half))];
      return { maxBytes: Math.max(first, second), growth: second / first };
    },
  };
}

/** @param service  its CPU time and peak memory */
function formatRow(
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
    (service.memoryBytes / MIB).toFixed(0),
    (service.cpuMs / elapsedMs).toFixed(2),
    (cpuMs / elapsedMs).toFixed(2),
  ];
  return tableRow(cells);
}
