import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Redis as Connection } from 'ioredis';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { RedisUsage } from '../../src/parts/redis/usage.ts';
import type { UsageAnswer } from '../../src/parts/usage/answers.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { createClient, type GrpcClient } from '../../test/helpers/grpc-client.ts';
import { fixedWindowOf, LARGEST } from '../../test/helpers/limits.ts';
import { operationOf } from '../../test/helpers/operations.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { clientOf } from '../../test/helpers/redis-topologies.ts';
import { until } from '../../test/helpers/until.ts';
import { asLocal, startWeir, type Weir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { controlOf, workersOf } from '../processes/service-processes.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { type ChaosServer, startSentinel } from './stores.ts';

export const usage = `Usage: npm run proof -- usage [options]

Charges counters in a Redis that loses nothing, while workers, the control process, whole instances and Redis are killed.
Afterwards each key's reported usage must equal its counter. With --failover a sentinel replaces killed masters, which
may lose what they have not replicated: then the usage of a key must be at least its counter, and at most what was sent.
Exits with 1 if that is not so.

  --charges <n>   how many hits to charge; default: 1000000
  --keys <n>      of how many keys; default: 1000
  --fault <ms>    the time between two faults; default: 3000
  --failover      replace killed masters by their replicas
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
/** Usage that has not changed for this long, many intervals, is complete. */
const UNCHANGED_MS = 5_000;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      charges: { type: 'string', default: '1000000' },
      keys: { type: 'string', default: '1000' },
      fault: { type: 'string', default: '3000' },
      failover: { type: 'boolean', default: false },
      cost: { type: 'boolean', default: false },
    },
  });
  if (values.cost) return measureCost();
  const found = await chargeWithFaults({
    charges: parseCount('--charges', values.charges),
    keys: parseCount('--keys', values.keys),
    faultMs: parseCount('--fault', values.fault),
    hasFailovers: values.failover,
    onFault: (fault) => console.log(`killed: ${fault}`),
  });
  const { admitted, counted, reported, lostByStore, lost, double, wrongKeys, faults } = found;
  console.log(`hits that callers know to be admitted:         ${admitted}`);
  console.log(`hits of the counters:                          ${counted}`);
  console.log(`hits of the report:                            ${reported}`);
  console.log(`admitted hits that the counters have lost:     ${lostByStore}`);
  console.log(`admitted hits that are missing in the report:  ${lost}`);
  console.log(`hits of the report that were never sent:       ${double}`);
  console.log(`keys whose usage is wrong:                     ${wrongKeys}`);
  console.log(`faults:                                        ${faults}`);
  if (wrongKeys > 0 || double > 0) throw new Error('usage does not add up');
}

interface Charging {
  readonly charges: number;
  readonly keys: number;
  readonly faultMs: number;
  /** Killed masters are replaced by their replicas; by default, Redis loses nothing. */
  readonly hasFailovers?: boolean;
  readonly onFault?: (fault: string) => void;
}

/** What was admitted, as callers, counters and the report know it, and sums of what differs by key. */
interface Charged {
  readonly admitted: number;
  readonly counted: number;
  readonly reported: number;
  /** Hits known to be admitted that a counter, or the report, does not have. */
  readonly lostByStore: number;
  readonly lost: number;
  /** Hits of the report beyond all that were sent. */
  readonly double: number;
  /** Keys whose usage is not that of their counter; after failovers, below it. */
  readonly wrongKeys: number;
  readonly faults: number;
}

/** A Redis that faults kill, and that serves again afterwards. */
interface FaultyRedis {
  readonly env: Readonly<Record<string, string>>;
  connect(): Promise<Connection>;
  fail(): Promise<void>;
  stop(): Promise<void>;
}

async function startLasting(folder: string): Promise<FaultyRedis> {
  const redis = await startRedis({ folder });
  return {
    env: { REDIS_URL: redis.url },
    connect: () => openReady(redis),
    async fail() {
      await redis.kill();
      await redis.restart();
    },
    stop: () => redis.stop(),
  };
}

async function startReplicated(): Promise<FaultyRedis> {
  const store = await startSentinel(false);
  const master = async () => {
    let found: ChaosServer | undefined;
    await until('there is a master', async () => {
      [found] = await store.masters();
      return found !== undefined;
    });
    return found as ChaosServer; // as just waited for
  };
  return {
    env: store.env,
    connect: async () => clientOf(await master()),
    async fail() {
      const killed = await master();
      await killed.kill();
      await store.replaced(killed);
      await killed.restart();
      await store.rejoined(killed);
      await store.whole();
    },
    stop: () => store.stop(),
  };
}

/** Charges at least this many hits while processes are killed. */
export async function chargeWithFaults({
  charges,
  keys,
  faultMs,
  hasFailovers = false,
  onFault = () => {},
}: Charging): Promise<Charged> {
  const folder = mkdtempSync(join(tmpdir(), 'usage-'));
  const redis = await (hasFailovers ? startReplicated : startLasting)(folder);
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = {
    WORKERS: '2',
    LOG_LEVEL: 'info',
    USE_STATSD: 'false',
    ...redis.env,
    USAGE_DIR: join(folder, 'usage'),
    USAGE_INTERVAL: '500ms',
    RULES_PATH: join(folder, 'rules.yaml'),
  };
  const service = { weir: await startWeir(env) };
  const ports = { GRPC_PORT: String(service.weir.grpcPort), DEBUG_PORT: String(service.weir.debugPort) };
  const faults: Readonly<Record<string, () => Promise<void>>> = {
    'a worker': async () => void kill(workersOf(service.weir).at(-1)),
    'the control process': async () => void kill(controlOf(service.weir)),
    Redis: () => redis.fail(),
    'the instance': async () => {
      await service.weir.stop('SIGKILL');
      service.weir = await startWeir({ ...env, ...ports });
    },
  };
  let isOver = false;
  let hadFault = false;
  const injected = (async () => {
    const order = hasFailovers ? ['Redis', 'a worker', 'the control process', 'the instance'] : Object.keys(faults);
    let count = 0;
    for (; !isOver; count++) {
      await sleep(faultMs);
      const name = order[count % order.length];
      const inject = faults[name ?? ''];
      if (!name || !inject || isOver) break;
      onFault(name);
      await inject();
      hadFault = true;
    }
    return count;
  })();
  try {
    const { admitted, sent } = await charge(service, { keys, isEnough: (count) => count >= charges && hadFault });
    isOver = true;
    const injectedFaults = await injected;
    const connection = await redis.connect();
    const counters = await readCounters(connection);
    connection.disconnect();
    const report = await settledReport(service.weir, hasFailovers ? undefined : sum(counters.values()));
    const beyond = (one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): number =>
      sum(Array.from(one, ([key, hits]) => Math.max(hits - (other.get(key) ?? 0), 0)));
    const isWrong = (key: string): boolean => {
      const [used, counted] = [report.get(key) ?? 0, counters.get(key) ?? 0];
      return hasFailovers ? used < counted : used !== counted;
    };
    return {
      admitted: sum(admitted.values()),
      counted: sum(counters.values()),
      reported: sum(report.values()),
      lostByStore: beyond(admitted, counters),
      lost: beyond(admitted, report),
      double: beyond(report, sent),
      wrongKeys: [...new Set([...counters.keys(), ...report.keys()])].filter(isWrong).length,
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

/** Sends batches until enough hits were admitted, after a fault. @returns the hits of each key that were sent, and that were admitted */
async function charge(
  service: { readonly weir: Weir },
  { keys, isEnough }: { readonly keys: number; readonly isEnough: (admitted: number) => boolean },
) {
  const [sent, admitted] = [new Map<string, number>(), new Map<string, number>()];
  const add = (to: Map<string, number>, key: string): void => void to.set(key, (to.get(key) ?? 0) + 1);
  let count = 0;
  let next = 0;
  const ofUser = (value: string) => ({
    domain: 'proof',
    descriptors: [{ entries: [{ key: 'user', value }], limit: null, hits_addend: null, is_negative_hits: false }],
    hits_addend: 1,
  });
  const send = async (): Promise<void> => {
    let client: GrpcClient | undefined;
    while (!isEnough(count)) {
      client ??= createClient(`127.0.0.1:${service.weir.grpcPort}`);
      const users = Array.from({ length: BATCH }, () => String(next++ % keys));
      for (const user of users) add(sent, `user=${user}`);
      try {
        const { answers } = await client.decide(users.map(ofUser));
        for (const [at, answer] of answers.entries()) {
          if (!('response' in answer)) continue;
          add(admitted, `user=${users[at]}`);
          count++;
        }
      } catch {
        client.close();
        client = undefined;
        await sleep(50); // its process was killed
      }
    }
    client?.close();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, send));
  return { sent, admitted };
}

/** The hits of each counter, by `user=…`. */
async function readCounters(redis: Connection): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const names = (await redis.keys('fixed_window.2|*')).filter((name) => name.includes('|5:proof|'));
  for (const name of names) {
    const count = await redis.get(name);
    const user = /\|4:user\|\d+:(\d+)$/.exec(name)?.[1];
    if (count && user !== undefined) found.set(`user=${user}`, Number(count));
  }
  return found;
}

/**
 * The report by key, as soon as it has this many hits, or after a while as it is. Without a number, once it has not
 * changed for a while.
 */
async function settledReport(weir: Weir, hits: number | undefined): Promise<ReadonlyMap<string, number>> {
  const untilMs = Date.now() + SETTLED_WITHIN_MS;
  let last = { hits: -1, sinceMs: 0 };
  for (;;) {
    const page = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/usage?count=100000`, {
      headers: asLocal(weir),
    }).catch(() => undefined);
    const report = page?.ok ? ((await page.json()) as UsageAnswer) : undefined; // as the API documents
    const nowMs = Date.now();
    if (report && report.hits !== last.hits) last = { hits: report.hits, sinceMs: nowMs };
    const isSettled = hits === undefined ? nowMs - last.sinceMs > UNCHANGED_MS : report?.hits === hits;
    if (report && (isSettled || nowMs > untilMs)) return new Map(report.rows.map((row) => [row.key ?? '', row.hits]));
    if (nowMs > untilMs) throw new Error('there is no report');
    await sleep(100);
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
  const backend = new RedisBackend(redis, Date.now, {
    slowMs: 60_000,
    ...(isOn && { usage: new RedisUsage(redis, '') }),
  });
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
