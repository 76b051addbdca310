import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startBusyNeighbours } from '../../test/helpers/busy-neighbours.ts';
import { type Redis, startRedis } from '../../test/helpers/redis.ts';
import { referenceProgram } from '../../test/helpers/reference.ts';
import { median, range } from '../tables/figures.ts';
import { writePage } from '../tables/page.ts';
import { table } from '../tables/table.ts';
import { type Generator, startGenerator } from './generator/generator.ts';
import { type LimitedService, listeners, referenceWith, startProxied, weirWith } from './overload/proxied.ts';
import { referencePeer } from './peers/reference.ts';

export const usage = `Usage: npm run proof -- burst [options]

Sends 1,500 requests of one user with a limit of 2 through an Envoy with its default timeout of 20 ms that lets undecided requests pass, to Weir
and to envoyproxy/ratelimit in turn, with counters in Redis, and prints the medians of how many passed: the table of docs/results/burst.md. Exits
with 1 if more pass with Weir than with the other and two more.

  --only TEXT        rows that contain this
  --machine NAME     quiet or busy, beside four busy processes; absent: both
  --quick            once each, instead of three times
  --write            writes the table into the page
  --help             this text
`;

const options = {
  only: { type: 'string', default: '' },
  machine: { type: 'string', default: '' },
  quick: { type: 'boolean', default: false },
  write: { type: 'boolean', default: false },
} as const;

const LIMIT = 2;
const REQUESTS = 1_500;
const TIMEOUT_MS = 20;
const TIMES = 3;
const NEIGHBOURS = { quiet: 0, busy: 4 } as const;
/** As many more may pass as with the other service. */
const ALLOWANCE = 2;
const CACHE_BYTES = 1_048_576;
const WARM_UP = { connections: 4, requests: 2_000 };
/** Time for Envoy to find the service healthy, and for a new process to come to rest. */
const REST_MS = 1_000;

type Machine = keyof typeof NEIGHBOURS;

interface Row {
  readonly name: string;
  readonly connections: number;
  /** Silence before the burst. */
  readonly idleMs: number;
  readonly isWarm?: boolean;
  readonly denyCacheBytes?: number;
}

const rows: readonly Row[] = [
  { name: 'first calls after the start', connections: 25, idleMs: REST_MS },
  { name: 'first calls, idle for 10 s before', connections: 25, idleMs: 10_000 },
  { name: 'after 2,000 other calls', connections: 25, idleMs: REST_MS, isWarm: true },
  { name: 'after 2,000 other calls, 5 connections', connections: 5, idleMs: REST_MS, isWarm: true },
  { name: 'first calls, LOCAL_CACHE_SIZE_IN_BYTES', connections: 25, idleMs: REST_MS, denyCacheBytes: CACHE_BYTES },
];

interface Cell {
  readonly row: Row;
  readonly machine: Machine;
  readonly generator: Generator;
  readonly redis: Redis;
  /** The program of envoyproxy/ratelimit. */
  readonly reference: string;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options });
  const machines = (['quiet', 'busy'] as const).filter((name) => name.startsWith(values.machine));
  const reference = await referenceProgram();
  const redis = await startRedis();
  const generator = startGenerator();
  const measured: Measured[] = [];
  try {
    for (const machine of machines)
      for (const row of rows.filter(({ name }) => name.includes(values.only)))
        measured.push(await measure({ row, machine, generator, redis, reference }, values.quick ? 1 : TIMES));
  } finally {
    generator.stop();
    await redis.stop();
  }
  const version = await referencePeer.versionOf(reference);
  const results = `${table(COLUMNS, 2, measured.map(formatRow))}\n\nenvoyproxy/ratelimit is ${version}.\n`;
  console.log(`\n${results}`);
  if (values.write) writePage('burst.md', results);
  const worse = measured.filter(({ weir, reference }) => median(weir) > median(reference) + ALLOWANCE);
  if (worse.length > 0)
    throw new Error(`more pass than with envoyproxy/ratelimit: ${worse.map(({ row }) => row.name).join('; ')}`);
}

interface Measured extends Pick<Cell, 'row' | 'machine'> {
  /** The requests that passed, in each trial. */
  readonly weir: readonly number[];
  readonly reference: readonly number[];
}

/** The services take turns. */
async function measure(cell: Cell, times: number): Promise<Measured> {
  const { row, machine } = cell;
  const weir: number[] = [];
  const reference: number[] = [];
  const cache = row.denyCacheBytes ?? 0;
  const env = cache > 0 ? { LOCAL_CACHE_SIZE_IN_BYTES: String(cache) } : {};
  for (const _ of range(times)) {
    weir.push(await countPassed(weirWith({ limit: LIMIT, env }), cell));
    reference.push(await countPassed(referenceWith(cell.reference, LIMIT, cache), cell));
  }
  console.error(`${row.name}, ${machine}: Weir ${weir.join(', ')}, envoyproxy/ratelimit ${reference.join(', ')}`);
  return { row, machine, weir, reference };
}

let users = 0;

async function countPassed(service: LimitedService, { row, machine, generator, redis }: Cell): Promise<number> {
  const proxied = await startProxied(service, { redisUrl: redis.url, timeoutMs: TIMEOUT_MS, isCold: true });
  const neighbours = await startBusyNeighbours(NEIGHBOURS[machine]);
  const send = (requests: number, own: number) =>
    generator.driveHttp({
      port: proxied.envoy.portOf(listeners.open),
      connections: own,
      pace: { kind: 'closed', callsInFlight: 1, end: { calls: requests } },
      users: [`user-${users++}`],
    });
  try {
    if (row.isWarm) await send(WARM_UP.requests, WARM_UP.connections);
    await sleep(row.idleMs);
    const { answers } = await send(REQUESTS, row.connections);
    return answers.ADMITTED + answers.UNLIMITED;
  } finally {
    await neighbours.stop();
    await proxied.stop();
  }
}

const COLUMNS = ['calls', 'machine', 'Weir', 'envoyproxy/ratelimit', 'each trial of Weir', 'of the other'];

const formatRow = ({ row, machine, weir, reference }: Measured): readonly (string | number)[] => [
  row.name,
  machine,
  median(weir),
  median(reference),
  weir.join(', '),
  reference.join(', '),
];
