import '../../helpers/realm.ts';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis as RedisClient } from 'ioredis';
import { PREFACE } from '../../../src/h2/http2/frames.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { settings } from '../../helpers/h2-client.ts';
import { freePort, start } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startUdpStatsd } from '../../helpers/statsd.ts';
import { until } from '../../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const OK = 1;
const LIMIT = 50;
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 10s}}
`;

let redis: Redis;
let folder: string;
let stops: (() => unknown)[];

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

async function service(
  env: Readonly<Record<string, string>> = {},
  args: readonly string[] = ['--rules', join(folder, 'rules.yaml')],
): Promise<Weir> {
  const common = { WORKERS: '3', REDIS_URL: redis.url, LOG_LEVEL: 'debug', USE_STATSD: 'false' };
  const weir = await startWeir({ ...common, ...env }, { args });
  stops.push(weir.stop);
  return weir;
}

/** Runs the service with settings that prevent its start. */
async function refusedService(env: Readonly<Record<string, string>>) {
  const loopback = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1', DEBUG_PORT: '0', PORT: '0' };
  const weir = await start(process.execPath, [MAIN, 'serve', '--rules', join(folder, 'rules.yaml')], {
    env: { PATH: process.env.PATH, ...loopback, ...env },
  });
  const { code } = await weir.exited;
  return { code, output: weir.output() };
}

/** A client on a new connection. */
function client(target: string): GrpcClient {
  const made = createClient(target);
  stops.push(made.close);
  return made;
}
const clients = ({ grpcPort }: Weir, count: number): readonly GrpcClient[] =>
  Array.from({ length: count }, () => client(`127.0.0.1:${grpcPort}`));

const queued = {
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'queue', value: '1' }], limit: null, hits_addend: null, is_negative_hits: false }],
  hits_addend: 1,
};

const page = async (port: number, path: string): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).text();

/** Statistics of the debug port, by name. */
async function stats({ debugPort }: Weir): Promise<Readonly<Record<string, number>>> {
  const lines = (await page(debugPort, '/stats')).trimEnd().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(': ')).map(([name, value]) => [name, Number(value)]));
}

const TOTAL_HITS = 'ratelimit.service.rate_limit.demo.user.total_hits';

/** Waits for the reports of all workers: a page is shown without that of a worker that takes long. */
const untilCounted = (weir: Weir, hits: number): Promise<void> =>
  until(`${hits} hits`, async () => (await stats(weir))[TOTAL_HITS] === hits);

/** The process ids of workers that listen or have listened, by the worker's number. */
const workersOf = ({ output }: Weir): ReadonlyMap<number, number> =>
  new Map(
    Array.from(output().matchAll(/worker (\d+) \(process (\d+)\) is listening/g), ([, id, pid]) => [
      Number(id),
      Number(pid),
    ]),
  );

function pidOf(weir: Weir, worker: number): number {
  const pid = workersOf(weir).get(worker);
  if (pid === undefined) throw new Error(`worker ${worker} does not listen; the output:\n${weir.output()}`);
  return pid;
}

/** Resolves when no process but this one is connected to Redis. */
async function untilRedisIsAlone(): Promise<void> {
  const own = new RedisClient(redis.port, '127.0.0.1', { replyMapping: 'legacy' });
  const connections = async () =>
    String(await own.call('CLIENT', 'LIST', 'TYPE', 'normal'))
      .trimEnd()
      .split('\n').length;
  await until('one connection', async () => (await connections()) === 1);
  own.disconnect();
}

test('workers together admit exactly the limit, and have common statistics', async () => {
  const weir = await service({ LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
  expect(weir.output()).toContain('  workers   3 processes\n');
  const calls = clients(weir, 20).flatMap((client) => Array.from({ length: 10 }, () => client.ask()));
  const answers = await Promise.all(calls);
  expect(answers.filter(({ overall_code }) => overall_code === OK)).toHaveLength(LIMIT);

  const CALLS = 'ratelimit_server.ShouldRateLimit.total_requests';
  await untilCounted(weir, 200);
  await until('200 calls', async () => (await stats(weir))[CALLS] === 200);
  const told = await stats(weir);
  expect(told).toMatchObject({
    [TOTAL_HITS]: 200,
    'ratelimit.service.rate_limit.demo.user.within_limit': LIMIT,
    'ratelimit.service.rate_limit.demo.user.over_limit': 150,
    [CALLS]: 200,
    'ratelimit.service.config_load_success': 1,
    'ratelimit.localcache.lookupCount': 200,
  });
  const metrics = await page(weir.debugPort, '/metrics');
  expect(metrics).toContain('weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"} 200\n');
  expect(metrics).toContain('weir_call_duration_seconds_count{method="ShouldRateLimit",grpc_status="0"} 200\n');
  expect(metrics).toContain('weir_ready 1\n');
});

test('workers get connections evenly, even after one has been replaced', async () => {
  const weir = await service();
  const CONNECTIONS = 30;
  const shares = async (): Promise<Readonly<Record<string, number>>> => {
    const seen = weir.output().length;
    const made = clients(weir, CONNECTIONS);
    for (const one of made) await expect(one.ask('')).rejects.toThrow('domain must not be empty');
    const count: Record<string, number> = {};
    const failures = () =>
      Array.from(
        weir
          .output()
          .slice(seen)
          .matchAll(/worker (\d+): a request failed/g),
      );
    await weir.waitFor(() => failures().length === CONNECTIONS);
    for (const [, worker = ''] of failures()) count[worker] = (count[worker] ?? 0) + 1;
    for (const one of made) one.close();
    return count;
  };
  const expectEven = (spread: Readonly<Record<string, number>>, workers: readonly string[]): void => {
    expect(Object.keys(spread)).toEqual(workers);
    const most = CONNECTIONS / workers.length + 3; // a worker that is slow to accept one is skipped
    for (const count of Object.values(spread)) expect(count).toBeLessThanOrEqual(most);
  };
  expectEven(await shares(), ['1', '2', '3']);
  process.kill(pidOf(weir, 1), 'SIGKILL');
  await weir.waitFor(() => workersOf(weir).has(4));
  expectEven(await shares(), ['2', '3', '4']);
});

test('a killed worker is replaced, while calls continue and its reported counts are kept', async () => {
  const weir = await service();
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await untilCounted(weir, 6);
  process.kill(pidOf(weir, 1), 'SIGKILL');
  await weir.waitFor(`worker 1 (process ${pidOf(weir, 1)}) exited (SIGKILL)`);
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await weir.waitFor(() => workersOf(weir).has(4));
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await untilCounted(weir, 18);
  const metrics = await page(weir.debugPort, '/metrics');
  expect(metrics).toContain('weir_worker_restarts_total 1\n');
  expect(metrics).toMatch(/^weir_connections [1-9]\d*$/m);
});

test('a worker killed before it takes a connection is replaced, that connection ends, and SIGTERM ends the service', async () => {
  const socket = join(folder, 'weir.sock'); // on a port, a worker might be stopped before it acknowledges the probe
  const weir = await service({ WORKERS: '2', GRPC_UDS: socket });
  for (const [id, next] of [
    [1, 3],
    [3, 4],
  ] as const) {
    process.kill(pidOf(weir, id), 'SIGSTOP');
    const sockets = Array.from({ length: 6 }, () => greeted(connect(socket)));
    const untouched = sockets.filter((socket) => socket.bytesRead === 0);
    await until('one connection without an answer', () => {
      dropAnswered(untouched);
      return untouched.length === 1;
    });
    const closed = Promise.all(
      untouched.map((socket) => socket.closed || new Promise((resolve) => socket.resume().once('close', resolve))),
    );
    process.kill(pidOf(weir, id), 'SIGKILL');
    await weir.waitFor(`worker ${id} (process ${pidOf(weir, id)}) exited (SIGKILL)`);
    await closed;
    await weir.waitFor(() => workersOf(weir).has(next));
    for (const socket of sockets) socket.destroy();
  }
  expect(await weir.stop()).toEqual({ code: 0, signal: null });
});

function greeted(socket: Socket): Socket {
  socket.on('error', () => {}).write(Buffer.concat([PREFACE, settings()]));
  return socket;
}

/** An HTTP/2 server answers at once, so no worker has accepted a connection without a received byte. */
function dropAnswered(sockets: Socket[]): void {
  for (const socket of sockets.filter(({ bytesRead }) => bytesRead > 0)) sockets.splice(sockets.indexOf(socket), 1);
}

test('workers load changed rules, and each load is counted once', async () => {
  const weir = await service();
  const loaded = (times: number) =>
    until(`${times} loads`, async () => (await stats(weir))['ratelimit.service.config_load_success'] === times);
  const hasLimit = async ({ ask }: GrpcClient) => Boolean((await ask()).statuses[0]?.current_limit);
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES.replace('key: user', 'key: account'));
  await loaded(2);
  for (const one of clients(weir, 6)) await until('no limit', async () => !(await hasLimit(one)));
  writeFileSync(rules, RULES);
  await loaded(3);
  for (const one of clients(weir, 6)) await until('a limit', () => hasLimit(one));
});

test('rules in many messages reach every worker completely', async () => {
  const descriptors = Array.from({ length: 2_000 }, (_, at) => ({
    ...{ key: 'user', value: `user-${at}` },
    rate_limit: { unit: 'year', requests_per_unit: at + 1 },
  }));
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify({ domain: 'demo', descriptors }));
  const weir = await service({ WORKERS: '2' });
  for (const one of clients(weir, 6)) {
    const entries = [{ key: 'user', value: 'user-1999' }];
    const answer = await one.send({ ...queued, descriptors: [{ ...queued.descriptors[0], entries }] } as typeof queued);
    expect(answer.statuses[0]?.current_limit).toMatchObject({ requests_per_unit: 2_000 });
  }
});

test('workers answer calls in flight and end when all processes receive SIGINT, as a terminal sends it', async () => {
  const weir = await service();
  const [one, other] = clients(weir, 2);
  await one?.send(queued);
  const held = other?.send(queued);
  await until('two hits', async () => (await stats(weir))['ratelimit.service.rate_limit.demo.queue.total_hits'] === 2);
  for (const pid of [weir.pid, ...workersOf(weir).values()]) process.kill(pid, 'SIGINT');
  expect(await held).toMatchObject({ overall_code: OK });
  expect(await weir.exited).toEqual({ code: 0, signal: null });
  await untilRedisIsAlone();
  expect(weir.output()).not.toContain('restarting in');
  expect(workersOf(weir).size).toBe(3);
});

test('a worker that receives SIGTERM answers its calls in flight, and is replaced', async () => {
  const weir = await service({ WORKERS: '2' });
  const [one, other] = clients(weir, 2);
  await one?.send(queued);
  const held = other?.send(queued);
  await until('two hits', async () => (await stats(weir))['ratelimit.service.rate_limit.demo.queue.total_hits'] === 2);
  for (const worker of [1, 2]) process.kill(pidOf(weir, worker), 'SIGTERM');
  expect(await held).toMatchObject({ overall_code: OK });
  await weir.waitFor(() => [3, 4].every((id) => workersOf(weir).has(id)));
  expect((await stats(weir))['ratelimit_server.ShouldRateLimit.total_requests']).toBe(2); // the last report has arrived
});

test('workers send their statistics together', async () => {
  const statsd = await startUdpStatsd();
  stops.push(statsd.close);
  const [USE_STATSD, STATSD_PROTOCOL, STATSD_HOST, STATSD_PORT] = ['true', 'udp', '127.0.0.1', String(statsd.port)];
  const weir = await service({ USE_STATSD, STATSD_PROTOCOL, STATSD_HOST, STATSD_PORT });
  await Promise.all(clients(weir, 9).map((one) => one.ask()));
  await weir.stop(); // sends the last report
  const sent = (name: string) => statsd.lines().filter((line) => line.startsWith(`${name}:`));
  await statsd.until(() => sent('ratelimit_server.ShouldRateLimit.response_time').length === 9);
  const hits = sent('ratelimit.service.rate_limit.demo.user.total_hits').map((line) =>
    Number(/:(\d+)\|c/.exec(line)?.[1]),
  );
  expect(hits.reduce((sum, count) => sum + count, 0)).toBe(9);
});

test('workers share a unix socket, even a stale one', async () => {
  const socket = join(folder, 'weir.sock');
  const left = await start(process.execPath, [
    '-e',
    `require('node:net').createServer().listen('${socket}', () => console.log('there'))`,
  ]);
  await left.waitFor('there');
  await left.stop('SIGKILL');
  const onSocket = await service({ GRPC_UDS: socket });
  for (const one of Array.from({ length: 4 }, () => client(`unix:${socket}`)))
    expect(await one.ask()).toMatchObject({ overall_code: OK });

  await onSocket.stop();
  await expect(client(`unix:${socket}`).ask()).rejects.toThrow('UNAVAILABLE');
});

test('an occupied port stops start-up, and is reported once', async () => {
  const occupied = createServer().listen(await freePort(), '127.0.0.1');
  stops.push(() => occupied.close());
  await once(occupied, 'listening');
  const { port } = occupied.address() as { readonly port: number }; // a TCP port
  const refused = await refusedService({ WORKERS: '3', REDIS_URL: redis.url, GRPC_PORT: String(port) });
  expect(refused).toEqual({
    code: 1,
    output: expect.stringMatching(/^weir: GRPC_PORT: cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE.*\n$/),
  });
});
