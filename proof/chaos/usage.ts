import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Redis as Connection } from 'ioredis';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { RedisBackend } from '../../src/engine/backends/redis/backend.ts';
import { usageKeys } from '../../src/engine/backends/redis/usage.ts';
import type { UsageAnswer } from '../../src/operate/answers/usage.ts';
import { childrenOf } from '../../test/helpers/child-processes.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { createClient, type GrpcClient } from '../../test/helpers/grpc-client.ts';
import { fixedWindowOf, LARGEST } from '../../test/helpers/limits.ts';
import { operationOf } from '../../test/helpers/operations.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { MAIN, startWeir, type Weir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- usage [options]

Charges counters in a Redis that loses nothing, while workers, the control process, whole instances and Redis are killed.
Afterwards each key's reported usage must equal its counter. Exits with 1 if one does not.

  --charges <n>   how many hits to charge; default: 1000000
  --keys <n>      of how many keys; default: 1000
  --fault <ms>    the time between two faults; default: 3000
  --cost          instead: measures the processor time of Redis with usage and without
`;

const YEAR_MS = 365 * 86_400_000;
const RULES = `domain: proof
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: ${LARGEST} }
`;
const BATCH = 100;
const CONNECTIONS = 4;
/** Usage must be complete this long after the last charge. */
const SETTLED_WITHIN_MS = 60_000;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      charges: { type: 'string', default: '1000000' },
      keys: { type: 'string', default: '1000' },
      fault: { type: 'string', default: '3000' },
      cost: { type: 'boolean', default: false },
    },
  });
  if (values.cost) return measureCost();
  const found = await chargeWithFaults({
    charges: parseCount('--charges', values.charges),
    keys: parseCount('--keys', values.keys),
    faultMs: parseCount('--fault', values.fault),
    onFault: (fault) => console.log(`killed: ${fault}`),
  });
  const { admitted, counted, reported, wrongKeys, faults } = found;
  console.log(`charges that callers know to be admitted: ${admitted}`);
  console.log(`hits of the counters:                     ${counted}`);
  console.log(`hits of the report:                       ${reported}`);
  console.log(`keys whose usage differs:                 ${wrongKeys}`);
  console.log(`faults:                                   ${faults}`);
  if (wrongKeys > 0 || counted !== reported || admitted > counted) throw new Error('usage does not add up');
}

interface Charging {
  readonly charges: number;
  readonly keys: number;
  readonly faultMs: number;
  readonly onFault?: (fault: string) => void;
}

/** What was admitted, as callers, counters and the report know it. */
interface Charged {
  readonly admitted: number;
  readonly counted: number;
  readonly reported: number;
  readonly wrongKeys: number;
  readonly faults: number;
}

/** Charges at least this many hits while processes are killed. */
export async function chargeWithFaults({ charges, keys, faultMs, onFault = () => {} }: Charging): Promise<Charged> {
  const folder = mkdtempSync(join(tmpdir(), 'usage-'));
  const redis = await startRedis({ folder });
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = {
    WORKERS: '2',
    LOG_LEVEL: 'info',
    USE_STATSD: 'false',
    REDIS_URL: redis.url,
    USAGE_DIR: join(folder, 'usage'),
    USAGE_INTERVAL: '500ms',
    RULES_PATH: join(folder, 'rules.yaml'),
  };
  const service = { weir: await startWeir(env) };
  const ports = { GRPC_PORT: String(service.weir.grpcPort), DEBUG_PORT: String(service.weir.debugPort) };
  const faults: Readonly<Record<string, () => Promise<void>>> = {
    'a worker': async () => void kill(workersOf(service.weir).at(-1)),
    'the control process': async () => void kill(controlOf(service.weir)),
    Redis: async () => {
      await redis.kill();
      await redis.restart();
    },
    'the instance': async () => {
      await service.weir.stop('SIGKILL');
      service.weir = await startWeir({ ...env, ...ports });
    },
  };
  let isOver = false;
  const injected = (async () => {
    let count = 0;
    for (; !isOver; count++) {
      await sleep(faultMs);
      const [name, inject] = Object.entries(faults)[count % Object.keys(faults).length] ?? [];
      if (!name || !inject || isOver) break;
      onFault(name);
      await inject();
    }
    return count;
  })();
  try {
    const admitted = await charge(service, { charges, keys });
    isOver = true;
    const injectedFaults = await injected;
    const connection = await openReady(redis);
    const counters = await readCounters(connection);
    connection.disconnect();
    const report = await settledReport(service.weir, sum(counters.values()));
    const wrong = [...counters].filter(([key, hits]) => report.get(key) !== hits);
    const unknown = [...report.keys()].filter((key) => !counters.has(key));
    return {
      admitted,
      counted: sum(counters.values()),
      reported: sum(report.values()),
      wrongKeys: wrong.length + unknown.length,
      faults: injectedFaults,
    };
  } finally {
    isOver = true;
    await injected;
    await service.weir.stop();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Sends batches until enough hits were admitted. @returns the hits that were */
async function charge(
  service: { readonly weir: Weir },
  { charges, keys }: Pick<Charging, 'charges' | 'keys'>,
): Promise<number> {
  let admitted = 0;
  let next = 0;
  const ofUser = () => ({
    domain: 'proof',
    descriptors: [
      {
        entries: [{ key: 'user', value: String(next++ % keys) }],
        limit: null,
        hits_addend: null,
        is_negative_hits: false,
      },
    ],
    hits_addend: 1,
  });
  const send = async (): Promise<void> => {
    let client: GrpcClient | undefined;
    while (admitted < charges) {
      client ??= createClient(`127.0.0.1:${service.weir.grpcPort}`);
      try {
        const { answers } = await client.decide(Array.from({ length: BATCH }, ofUser));
        admitted += answers.filter((answer) => 'response' in answer).length;
      } catch {
        client.close();
        client = undefined;
        await sleep(50); // its process was killed
      }
    }
    client?.close();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, send));
  return admitted;
}

/** The hits of each counter, by `user=…`. */
async function readCounters(redis: Connection): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const names = (await redis.keys('fixed_window|*')).filter((name) => name.includes('|5:proof|'));
  for (const name of names) {
    const state = await redis.getBuffer(name); // a window and its count
    const user = /\|4:user\|\d+:(\d+)$/.exec(name)?.[1];
    if (state && user !== undefined) found.set(`user=${user}`, state.readDoubleLE(8));
  }
  return found;
}

/** The report by key, as soon as it has this many hits, or after a while as it is. */
async function settledReport(weir: Weir, hits: number): Promise<ReadonlyMap<string, number>> {
  const untilMs = Date.now() + SETTLED_WITHIN_MS;
  for (;;) {
    const page = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/usage?count=1000000`).catch(() => undefined);
    const report = page?.ok ? ((await page.json()) as UsageAnswer) : undefined; // as the API documents
    if (report && (report.hits === hits || Date.now() > untilMs))
      return new Map(report.rows.map((row) => [row.key ?? '', row.hits]));
    if (Date.now() > untilMs) throw new Error('there is no report');
    await sleep(100);
  }
}

const workersOf = ({ pid }: Weir): readonly number[] =>
  childrenOf(pid).filter((child) => commandOf(child).includes(MAIN) && !commandOf(child).includes('control-process'));
const controlOf = ({ pid }: Weir): number | undefined =>
  childrenOf(pid).find((child) => commandOf(child).includes('control-process'));

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return ''; // it has ended
  }
}

function kill(pid: number | undefined): void {
  if (pid !== undefined) process.kill(pid, 'SIGKILL');
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((all, one) => all + one, 0);

/** Spends per measurement. */
const SPENDS = 40_960;
const COUNTERS = 10_240;
const ROUNDS = 3;

/** Prints the processor time of Redis for a spend, in calls of several sizes, with usage and without. */
async function measureCost(): Promise<void> {
  const server = await startRedis();
  const redis = await openReady(server);
  console.log(tableHead(['requests in a call', 'usage', 'µs of Redis a request', 'of that without'], 2));
  for (const inCall of [1, 16, 128]) {
    const off: number[] = [];
    const on: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      off.push(await microsOf(redis, inCall, false));
      on.push(await microsOf(redis, inCall, true));
    }
    const [without, withUsage] = [Math.min(...off), Math.min(...on)];
    console.log(tableRow([inCall, 'off', without.toFixed(2), '1.00']));
    console.log(tableRow([inCall, 'on', withUsage.toFixed(2), (withUsage / without).toFixed(2)]));
  }
  redis.disconnect();
  await server.stop();
}

async function microsOf(redis: Connection, inCall: number, isOn: boolean): Promise<number> {
  await redis.flushall();
  redis.setMaxListeners(100); // of the backends
  const backend = new RedisBackend(redis, Date.now, { slowMs: 60_000, ...(isOn && { usageKeys: usageKeys('') }) });
  const limit = fixedWindowOf(LARGEST, YEAR_MS);
  const keys = createCounterKeys('');
  const spends = Array.from({ length: COUNTERS }, (_, at) => ({
    ...operationOf({ key: keys(limit, 'proof', [{ key: 'user', value: String(at) }]) }, limit, 1, true),
    ...(isOn && { metered: true as const }),
  }));
  const how = { spend: 'each', timeoutMs: 60_000 } as const;
  const spend = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += inCall) {
      const from = at % COUNTERS;
      await Promise.all(spends.slice(from, from + inCall).map((one) => backend.run([one], how)));
    }
  };
  await spend(COUNTERS); // counters exist
  const before = await cpuSeconds(redis);
  await spend(SPENDS);
  return (((await cpuSeconds(redis)) - before) * 1e6) / SPENDS;
}

async function cpuSeconds(redis: Connection): Promise<number> {
  const info = await redis.info('cpu');
  const read = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1]);
  return read('used_cpu_sys_main_thread') + read('used_cpu_user_main_thread');
}
