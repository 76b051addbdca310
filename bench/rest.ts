import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpus, release } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Running, start } from '../test/helpers/process.ts';
import { startRedis } from '../test/helpers/redis.ts';
import { firstAnswer } from './at-rest/first-answer.ts';
import { packageSize } from './at-rest/package.ts';
import { referenceSite, type Site, weirSite } from './at-rest/site.ts';
import { type RestUsage, restUsageOf } from './at-rest/usage.ts';
import { runMain } from './main.ts';
import { median } from './median.ts';
import { programOf } from './peers/peer.ts';
import { referencePeer } from './peers/reference.ts';
import { table } from './table.ts';
import { countOf } from './usage.ts';

const usage = `Usage: npm run rest -- [options]

Measures the service while nothing calls it: from start to first answer, memory, CPU time and wake-ups, and the size of the npm package;
beside envoyproxy/ratelimit where npm run peers has built it, or REFERENCE_BIN names its program. Takes three minutes, on Linux only.

  --starts N   starts of each service; the time is the median (15)
  --seconds N  how long CPU time is counted, twice in a row (60)
  --quick      --starts 5 --seconds 10
  --help       prints this text
`;

const options = {
  starts: { type: 'string' },
  seconds: { type: 'string' },
  quick: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/** How long a service has been idle when its memory is read and its CPU time begins to count. */
const SETTLE_MS = 5_000;
const BYTES_PER_MIB = 1024 * 1024;
const BYTES_PER_MB = 1_000_000;

/** What one service uses at rest. */
interface Rest {
  readonly name: string;
  /** From start to first answer, over the time that `node -e 0` takes: the median of all rounds, and the time itself. */
  readonly starts: number;
  readonly startMs: number;
  readonly settled: RestUsage;
  /** Shares of a core: at first, while V8 collects the garbage of the start once, and afterwards. */
  readonly cpuAtFirst: number;
  readonly cpuAfterwards: number;
  readonly wakeUpsPerSecond: number;
}

runMain(measure);

async function measure(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) return void process.stdout.write(usage);
  const starts = countOf('--starts', values.starts ?? (values.quick ? '5' : '15'));
  const seconds = countOf('--seconds', values.seconds ?? (values.quick ? '10' : '60'));
  const redis = await startRedis();
  const sites: Site[] = [];
  try {
    const store = { REDIS_URL: redis.url };
    sites.push(await weirSite('Weir, memory'), await weirSite('Weir, Redis', store));
    sites.push(await weirSite('Weir, Redis, WORKERS=2', { ...store, WORKERS: '2' }));
    const program = programOf(referencePeer, process.env);
    if (program !== undefined) sites.push(await referenceSite(`${referencePeer.name}, Redis`, program, redis.url));
    const times = await timeStarts(sites, starts);
    const rests = await rest(sites, times, seconds);
    console.log(toMarkdown(rests));
    if (program === undefined)
      console.log(`\n${referencePeer.name} is not measured: npm run peers, or ${referencePeer.variable}`);
    const { packedBytes, installedBytes, packages } = await packageSize();
    const mb = (bytes: number): string => (bytes / BYTES_PER_MB).toFixed(1);
    console.log(
      `\nThe npm package: ${mb(packedBytes)} MB packed, ${mb(installedBytes)} MB installed, ${packages} package${packages === 1 ? '' : 's'}`,
    );
    console.log(`\n${cpus().length} processors, ${cpus()[0]?.model}; Linux ${release()}; Node ${process.version}`);
  } finally {
    for (const site of sites) site.remove();
    await redis.stop();
  }
}

interface StartTimes {
  readonly ratio: number;
  readonly ms: number;
}

/** In each round, Node alone and then every service, one at a time: what else the machine does affects all of them. */
async function timeStarts(sites: readonly Site[], rounds: number): Promise<ReadonlyMap<Site, StartTimes>> {
  const found = new Map<Site, StartTimes[]>(sites.map((site) => [site, []]));
  for (let round = 0; round <= rounds; round++) {
    console.error(`start ${round} of ${rounds} …`);
    for (const [site, times] of found) {
      const nodeMs = timeOfNode();
      const ms = await timeOfStart(site);
      if (round > 0) times.push({ ratio: ms / nodeMs, ms }); // the first brings files into the cache
    }
  }
  const medianOf = (times: readonly StartTimes[]): StartTimes => ({
    ratio: median(times.map(({ ratio }) => ratio)),
    ms: median(times.map(({ ms }) => ms)),
  });
  return new Map([...found].map(([site, times]) => [site, medianOf(times)]));
}

function timeOfNode(): number {
  const startedMs = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  return performance.now() - startedMs;
}

async function timeOfStart({ command, args, env, grpcPort }: Site): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(command, args, { env, stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    await firstAnswer(grpcPort, () => child.exitCode === null);
    return performance.now() - startedMs;
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
}

/** Runs all services side by side, without a call but one each. */
async function rest(
  sites: readonly Site[],
  times: ReadonlyMap<Site, StartTimes>,
  seconds: number,
): Promise<readonly Rest[]> {
  const running: Running[] = [];
  try {
    for (const { name, command, args, env, grpcPort } of sites) {
      const service = await start(command, args, { name, env: { ...env } });
      running.push(service);
      await firstAnswer(grpcPort, () => true);
    }
    await sleep(SETTLE_MS);
    const usages = [running.map(({ pid }) => restUsageOf(pid))];
    for (const part of ['at first', 'afterwards']) {
      console.error(`idle for ${seconds} s, ${part} …`);
      await sleep(seconds * 1_000);
      usages.push(running.map(({ pid }) => restUsageOf(pid)));
    }
    return sites.map((site, at) => {
      const [settled, later, last] = usages.map((all) => all[at]);
      const time = times.get(site);
      if (!settled || !later || !last || !time) throw new Error(`${site.name} was not measured`);
      return {
        name: site.name,
        starts: time.ratio,
        startMs: time.ms,
        settled,
        cpuAtFirst: (later.cpuNs - settled.cpuNs) / (seconds * 1e9),
        cpuAfterwards: (last.cpuNs - later.cpuNs) / (seconds * 1e9),
        wakeUpsPerSecond: (last.wakeUps - later.wakeUps) / seconds,
      };
    });
  } finally {
    for (const service of running) await service.stop();
  }
}

const toMarkdown = (rests: readonly Rest[]): string =>
  table(
    [
      'at rest',
      'start ÷ `node -e 0`',
      'start, ms',
      'RSS, MiB',
      'shared once, MiB',
      'CPU at first',
      'CPU afterwards',
      'wake-ups/s',
    ],
    1,
    rests.map(({ name, starts, startMs, settled, cpuAtFirst, cpuAfterwards, wakeUpsPerSecond }) => [
      name,
      starts.toFixed(1),
      startMs.toFixed(0),
      (settled.residentBytes / BYTES_PER_MIB).toFixed(1),
      (settled.togetherBytes / BYTES_PER_MIB).toFixed(1),
      `${(cpuAtFirst * 100).toFixed(2)} %`,
      `${(cpuAfterwards * 100).toFixed(2)} %`,
      wakeUpsPerSecond.toFixed(1),
    ]),
  );
