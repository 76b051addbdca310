import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis as RedisClient } from 'ioredis';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { start } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

export const OK = 1;
export const LIMIT = 50;
export const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 10s}}
`;

export let redis: Redis;
export let folder: string;
export let stops: (() => unknown)[];

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'workers-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await redis.restart();
});

export async function service(
  env: Readonly<Record<string, string>> = {},
  args: readonly string[] = ['--rules', join(folder, 'rules.yaml')],
): Promise<Weir> {
  const common = { WORKERS: '3', REDIS_URL: redis.url, LOG_LEVEL: 'debug', USE_STATSD: 'false' };
  const weir = await startWeir({ ...common, ...env }, { args });
  stops.push(weir.stop);
  return weir;
}

/** Runs the service with settings that prevent its start. */
export async function refusedService(env: Readonly<Record<string, string>>) {
  const loopback = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1', DEBUG_PORT: '0', PORT: '0' };
  const weir = await start(process.execPath, [MAIN, 'serve', '--rules', join(folder, 'rules.yaml')], {
    env: { PATH: process.env.PATH, ...loopback, ...env },
  });
  const { code } = await weir.exited;
  return { code, output: weir.output() };
}

/** A client on a new connection. */
export function client(target: string): GrpcClient {
  const made = createClient(target);
  stops.push(made.close);
  return made;
}
export const clients = ({ grpcPort }: Weir, count: number): readonly GrpcClient[] =>
  Array.from({ length: count }, () => client(`127.0.0.1:${grpcPort}`));

export const queued = {
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'queue', value: '1' }], limit: null, hits_addend: null, is_negative_hits: false }],
  hits_addend: 1,
};

export const page = async (port: number, path: string): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).text();

/** Statistics of the debug port, by name. */
export async function stats({ debugPort }: Weir): Promise<Readonly<Record<string, number>>> {
  const lines = (await page(debugPort, '/stats')).trimEnd().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(': ')).map(([name, value]) => [name, Number(value)]));
}

export const TOTAL_HITS = 'ratelimit.service.rate_limit.demo.user.total_hits';

/** Waits for the reports of all workers: a page is shown without that of a worker that takes long. */
export const untilCounted = (weir: Weir, hits: number): Promise<void> =>
  until(`${hits} hits`, async () => (await stats(weir))[TOTAL_HITS] === hits);

/** The process ids of workers that listen or have listened, by the worker's number. */
export const workersOf = ({ output }: Weir): ReadonlyMap<number, number> =>
  new Map(
    Array.from(output().matchAll(/worker (\d+) \(process (\d+)\) is listening/g), ([, id, pid]) => [
      Number(id),
      Number(pid),
    ]),
  );

export function pidOf(weir: Weir, worker: number): number {
  const pid = workersOf(weir).get(worker);
  if (pid === undefined) throw new Error(`worker ${worker} does not listen; the output:\n${weir.output()}`);
  return pid;
}

/** Resolves when no process but this one is connected to Redis. */
export async function untilRedisIsAlone(): Promise<void> {
  const own = new RedisClient(redis.port, '127.0.0.1', { replyMapping: 'legacy' });
  const connections = async () =>
    String(await own.call('CLIENT', 'LIST', 'TYPE', 'normal'))
      .trimEnd()
      .split('\n').length;
  await until('one connection', async () => (await connections()) === 1);
  own.disconnect();
}
