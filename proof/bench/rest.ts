import { cpus, release } from 'node:os';
import { parseArgs } from 'node:util';
import { startRedis } from '../../test/helpers/redis.ts';
import { parseChoice, parseCount } from '../options.ts';
import { measureArrivals } from './at-rest/arrivals.ts';
import { measureIdle } from './at-rest/idle.ts';
import { measureIdleConnections } from './at-rest/idle-connections.ts';
import { packageSize } from './at-rest/package.ts';
import { limitadorSite, referenceSite, type Site, weirSite } from './at-rest/site.ts';
import { limitadorPeer } from './peers/limitador.ts';
import { findProgram, type Peer } from './peers/peer.ts';
import { referencePeer } from './peers/reference.ts';

export const usage = `Usage: npm run proof -- rest [options]

Measures the service while nothing calls it: from start to first answer, memory, CPU time and wake-ups; the cost of connections that are
idle, or opened by the thousand in a second; and the size of the npm package. Compares other services if npm run proof -- peers has built them,
or REFERENCE_BIN and LIMITADOR_BIN name their programs. Takes six minutes, on Linux only.

  --only PART      idle, connections or package
  --starts N       starts of each service; the time is the median (15)
  --seconds N      how long CPU time is measured, twice in a row, and how long services settle before, up to 10 s (60)
  --connections N  idle connections; half as many are opened in a second (10000)
  --rounds N       how often connections are opened in a second; p99 is the median (5)
  --quick          --starts 5 --seconds 10 --rounds 3
  --help           prints this text
`;

const options = {
  only: { type: 'string' },
  starts: { type: 'string' },
  seconds: { type: 'string' },
  connections: { type: 'string', default: '10000' },
  rounds: { type: 'string' },
  quick: { type: 'boolean', default: false },
} as const;

const BYTES_PER_MB = 1_000_000;

const parts = ['idle', 'connections', 'package'] as const;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const only = values.only === undefined ? parts : [parseChoice('--only', values.only, parts)];
  const starts = parseCount('--starts', values.starts ?? (values.quick ? '5' : '15'));
  const seconds = parseCount('--seconds', values.seconds ?? (values.quick ? '10' : '60'));
  const connections = parseCount('--connections', values.connections);
  const rounds = parseCount('--rounds', values.rounds ?? (values.quick ? '3' : '5'));
  const redis = await startRedis();
  const { weir, others, missing } = await openSites(redis.url);
  try {
    if (only.includes('idle')) {
      const names = missing.map(({ name }) => name);
      console.log(`${await measureIdle([...weir, ...others], { starts, seconds, missing: names })}\n`);
    }
    if (only.includes('connections')) {
      const [memory] = weir;
      const compared = [...(memory ? [memory] : []), ...others];
      console.log(`${await measureIdleConnections(compared, { connections, seconds })}\n`);
      console.log(`${await measureArrivals(compared, Math.ceil(connections / 2), rounds)}\n`);
    }
    for (const { name, variable } of missing)
      console.log(`${name} is not measured: npm run proof -- peers, or ${variable}\n`);
    if (only.includes('package')) console.log(`${await describePackage()}\n`);
    console.log(`${cpus().length} processors, ${cpus()[0]?.model}; Linux ${release()}; Node ${process.version}`);
  } finally {
    for (const site of [...weir, ...others]) site.remove();
    await redis.stop();
  }
}

interface Sites {
  readonly weir: readonly Site[];
  /** Peers with a program. */
  readonly others: readonly Site[];
  readonly missing: readonly Peer[];
}

async function openSites(redisUrl: string): Promise<Sites> {
  const store = { REDIS_URL: redisUrl };
  const weir = [
    await weirSite('Weir, memory'),
    await weirSite('Weir, Redis', store),
    await weirSite('Weir, Redis, WORKERS=2', { ...store, WORKERS: '2' }),
  ];
  const reference = findProgram(referencePeer, process.env);
  const limitador = findProgram(limitadorPeer, process.env);
  return {
    weir,
    others: [
      ...(reference === undefined ? [] : [await referenceSite(`${referencePeer.name}, Redis`, reference, redisUrl)]),
      ...(limitador === undefined ? [] : [await limitadorSite(`${limitadorPeer.name}, memory`, limitador)]),
    ],
    missing: [...(reference === undefined ? [referencePeer] : []), ...(limitador === undefined ? [limitadorPeer] : [])],
  };
}

async function describePackage(): Promise<string> {
  const { packedBytes, installedBytes, packages } = await packageSize();
  const mb = (bytes: number): string => (bytes / BYTES_PER_MB).toFixed(1);
  const count = `${packages} package${packages === 1 ? '' : 's'}`;
  return `The npm package: ${mb(packedBytes)} MB packed, ${mb(installedBytes)} MB installed, ${count}`;
}
