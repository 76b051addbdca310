import { mkdtempSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientOptions } from '../../client/src/index.ts';
import { createAuthority, writeCertificate } from '../helpers/certificates.ts';
import { freePort, start } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import type { FaultReport } from './apps/faults.ts';
import { closeAll, closeLater, listen, openClient, RULES, startService, TIMEOUT_MS } from './service.ts';

/** The long form is `CLIENT_FAULT_CALLS=1000000 npx jest test/client/faults`. */
const CALLS = Number(process.env.CLIENT_FAULT_CALLS ?? 5_000);
const LONG_MS = 30 * 60_000;
const MAX_GROWN_BYTES = 20_000_000;

afterEach(closeAll);

/** A server that accepts connections and never answers. */
async function startSilent(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
  });
  closeLater(() => {
    for (const socket of sockets) socket.destroy();
  });
  return `127.0.0.1:${await listen(server)}`;
}

/** The files of a server certificate from an authority that no client trusts. */
function certificates() {
  const folder = mkdtempSync(join(tmpdir(), 'client-tls-'));
  const authority = createAuthority();
  const certificate = authority.issue('localhost', '127.0.0.1');
  return { folder, authority, files: writeCertificate(folder, 'server', certificate) };
}

/** Over HTTP, a request is sent again, up to twice, if an idle connection breaks. */
const MAX_SENT_OVER_HTTP = 3;

test(
  'every call settles in time, and is charged once each time it is sent, while servers are killed, stopped, refuse, never answer, or have wrong certificates',
  async () => {
    const ports = { GRPC_PORT: String(await freePort()), PORT: String(await freePort()) };
    const redis = await startRedis(); // keeps the counters of services that are killed
    closeLater(() => redis.stop());
    const charged =
      '  - key: charged\n    rate_limit: { unit: day, requests_per_unit: 1000000000, alignment: first_hit }\n';
    const rules = RULES + charged;
    const store = { BACKEND_TYPE: 'redis', REDIS_URL: redis.url };
    const service = await startService(rules, { ...ports, ...store });
    const { files } = certificates();
    const secured = await startService(RULES, {
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: files.cert,
      GRPC_SERVER_TLS_KEY: files.key,
    });
    const refusing = `127.0.0.1:${await freePort()}`;
    const clients: Record<string, ClientOptions> = {
      killed: { target: service.grpc, onError: 'deny' },
      killedWithoutBreaker: { target: service.grpc, breaker: false },
      killedHttp: { target: service.http, onError: 'deny' },
      several: { target: [refusing, service.grpc, service.http], onError: 'local' },
      silent: { target: await startSilent(), breaker: { failures: 3 } },
      wrongCertificate: {
        target: `localhost:${secured.grpcPort}`,
        breaker: false,
        tls: { ca: createAuthority().cert },
      },
      wrongProtocol: { target: service.http.replace('http://', ''), onError: 'deny' },
    };
    const args = [
      '--expose-gc',
      '--import',
      'tsx',
      'test/client/apps/faults.ts',
      JSON.stringify({ clients, calls: CALLS }),
    ];
    const driver = await start(process.execPath, args, { name: 'driver' });
    closeLater(() => driver.stop());
    let isOver = false;
    driver.exited.then(() => {
      isOver = true;
    });
    await driver.waitFor('started');
    let { pid, stop } = service;
    for (let round = 0; !isOver; round++) {
      await sleep(500);
      if (round % 2 === 0) {
        process.kill(pid, 'SIGSTOP');
        await sleep(300);
        process.kill(pid, 'SIGCONT');
      } else {
        await stop('SIGKILL');
        await sleep(300);
        ({ pid, stop } = await startService(rules, { ...ports, ...store }));
      }
    }
    const report: FaultReport = JSON.parse(
      driver
        .output()
        .split('\n')
        .find((line) => line.startsWith('{')) ?? driver.output(),
    );
    if (CALLS > 1e5) process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`);
    expect(report).toMatchObject({ calls: CALLS, settled: CALLS, late: 0, unhandled: [] });
    expect(report.grownBytes).toBeLessThan(MAX_GROWN_BYTES);
    const { killed, killedWithoutBreaker, killedHttp, several, silent, wrongCertificate, wrongProtocol } =
      report.outcomes;
    const answered = [killed, killedWithoutBreaker, killedHttp, several].map((counts) => counts?.allowed ?? 0);
    expect(Math.max(...answered)).toBeGreaterThan(0);
    for (const counts of [killed, killedHttp, silent, wrongCertificate, wrongProtocol])
      expect((counts?.timeout ?? 0) + (counts?.unavailable ?? 0) + (counts?.breaker_open ?? 0)).toBeGreaterThan(0);
    for (const counts of [silent, wrongCertificate, wrongProtocol]) expect(counts?.allowed).toBeUndefined();
    const counting = await openClient({ target: (await startService(rules, store)).grpc });
    for (const [name, { counted, uncertain, retries }] of Object.entries(report.charges)) {
      const { limit = 0, remaining = 0 } = await counting.limit('demo', { charged: name }, { hits: 0 });
      const charged = limit - remaining;
      const sentAtMost = ['killedHttp', 'several'].includes(name) ? MAX_SENT_OVER_HTTP : 1;
      const isWithinBound = charged >= counted && charged <= counted + (uncertain + retries) * sentAtMost;
      const figures = { name, charged, counted, uncertain, retries };
      expect({ ...figures, isWithinBound }).toEqual({ ...figures, isWithinBound: true });
    }
  },
  LONG_MS,
);

test('calls over mutual TLS are answered, but not those without a certificate', async () => {
  const { folder, authority, files } = certificates();
  const env = {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: files.cert,
    GRPC_SERVER_TLS_KEY: files.key,
    GRPC_CLIENT_TLS_CACERT: writeCertificate(folder, 'authority', authority).cert,
  };
  const target = `localhost:${(await startService(RULES, env)).grpcPort}`;
  const ca = authority.cert;
  const known = await openClient({ target, tls: { ca, ...authority.issue('a client') } });
  expect(await known.limit('demo', { user: 'a' })).toMatchObject({ ok: true, remaining: 4 });
  const unknown = await openClient({ target, tls: { ca }, onError: 'deny' }, { isUp: false });
  expect(await unknown.limit('demo', { user: 'a' })).toMatchObject({ ok: false, error: { kind: 'unavailable' } });
});

test('each call sets the decision if no server answers', async () => {
  const target = `127.0.0.1:${await freePort()}`;
  const client = await openClient({ target }, { isUp: false });
  const limit = (onError?: 'allow' | 'deny' | 'local') =>
    client.limit('demo', { user: 'x' }, onError === undefined ? {} : { onError });
  expect(await limit()).toMatchObject({ ok: true, source: 'client_local', error: { kind: 'unavailable' } });
  expect(await limit('allow')).toMatchObject({ ok: true, source: 'client_allow' });
  expect(await limit('deny')).toMatchObject({ ok: false, source: 'client_deny' });
  expect(await limit('local')).toMatchObject({ ok: true, source: 'client_local' });
  await expect(client.require('demo', { user: 'x' }, { onError: 'deny' })).rejects.toMatchObject({
    name: 'WeirUnavailable',
    kind: 'unavailable',
  });
  expect(client.stats()).toMatchObject({ calls: 5, failed: 5 });
});

test('while the service is down, the client counts by the last limit that it has seen', async () => {
  const service = await startService(RULES);
  const client = await openClient({ target: service.grpc, onError: 'local' });
  await client.limit('demo', { user: 'seen' });
  await service.stop();
  const decisions = [];
  for (let calls = 0; calls < 7; calls++) decisions.push(await client.limit('demo', { user: 'another' }));
  expect(decisions.map(({ ok }) => ok)).toEqual([true, true, true, true, true, false, false]);
  expect(decisions[6]).toMatchObject({ rule: 'demo.user', limit: 5, remaining: 0, source: 'client_local' });
  expect(decisions[6]?.retryAfterMs).toBeGreaterThan(0);
});

test.each(['grpc', 'http'] as const)(
  'while the store of the service is down, onError decides over %s, and the breaker opens',
  async (protocol) => {
    const redis = await startRedis();
    closeLater(() => redis.stop());
    const service = await startService(RULES, { BACKEND_TYPE: 'redis', REDIS_URL: redis.url });
    const breaker = { failures: 2, minOpenMs: TIMEOUT_MS, maxOpenMs: TIMEOUT_MS };
    const client = await openClient({ target: service[protocol], onError: 'allow', breaker });
    const call = () => client.limit('demo', { user: 'x' });
    expect(await call()).toMatchObject({ ok: true, source: 'backend' });
    await redis.stop();
    const failed = { ok: true, source: 'client_allow' };
    for (let calls = 0; calls < 2; calls++)
      expect(await call()).toMatchObject({ ...failed, error: { kind: 'unavailable' } });
    expect(await call()).toMatchObject({ ...failed, error: { kind: 'breaker_open' } });
  },
);

test('a 400 without a gRPC status, by which envoyproxy/ratelimit reports every error, counts as a failure', async () => {
  const server = createHttpServer((_, response) => response.writeHead(400).end('Bad Request'));
  const port = await listen(server);
  const target = `http://127.0.0.1:${port}`;
  const client = await openClient({ target, onError: 'allow', breaker: { failures: 1 } }, { isUp: false });
  const call = () => client.limit('demo', { user: 'x' });
  expect(await call()).toMatchObject({ ok: true, error: { kind: 'unavailable' } });
  expect(await call()).toMatchObject({ ok: true, error: { kind: 'breaker_open' } });
});

test('a request that the service considers invalid is an invalid one over HTTP as well', async () => {
  const { http: target } = await startService('domain: demo\n');
  const client = await openClient({ target });
  const rejected = await client.limit(
    'demo',
    Array.from({ length: 300 }, (_, user) => ({ user })),
  );
  expect(rejected).toMatchObject({ error: { kind: 'invalid' } });
  expect(client.stats().servers[0]?.failed).toBe(0);
});

test('a recovered server gets a health check before it gets calls again, if there are others', async () => {
  const port = String(await freePort());
  const other = await startService(RULES);
  const breaker = { failures: 1, minOpenMs: 20, maxOpenMs: 40 };
  const client = await openClient({ target: [`127.0.0.1:${port}`, other.grpc], breaker, onError: 'deny' });
  const call = () => client.limit('demo', { free: 1 });
  await until('the breaker opens', async () => {
    await call();
    return client.stats().servers[0]?.breaker !== 'closed';
  });
  const { sent } = client.stats().servers[0] ?? {};
  await sleep(200);
  for (let calls = 0; calls < 50; calls++) expect(await call()).toMatchObject({ ok: true, error: undefined });
  expect(client.stats().servers[0]?.sent).toBe(sent);
  await startService(RULES, { GRPC_PORT: port });
  const calling = setInterval(() => void call(), 10);
  await until('the server gets calls again', () => (client.stats().servers[0]?.sent ?? 0) > (sent ?? 0));
  clearInterval(calling);
});

test('the breaker opens after consecutive failures, and closes when the server is back', async () => {
  const port = String(await freePort());
  const target = `127.0.0.1:${port}`;
  const breaker = { failures: 3, minOpenMs: 20, maxOpenMs: 100 };
  const client = await openClient({ target, breaker, onError: 'deny' }, { isUp: false });
  const kinds = new Set<unknown>();
  await until('a call is not sent', async () => {
    const { error } = await client.limit('demo', { user: 'x' });
    kinds.add(error && 'kind' in error && error.kind);
    return kinds.has('breaker_open'); // not for a call that a busy machine begins when the breaker admits a trial
  });
  expect(kinds).toEqual(new Set(['unavailable', 'breaker_open']));
  await startService(RULES, { GRPC_PORT: port });
  let isAnswered = false;
  const calling = setInterval(() => {
    void client.limit('demo', { free: 1 }).then(({ error }) => {
      isAnswered ||= error === undefined;
    });
  }, 20);
  await until('the server gets calls again', () => isAnswered);
  clearInterval(calling);
  await until('the breaker is closed', () => client.stats().servers[0]?.breaker === 'closed');
});

test('calls are sent to working servers, and a call that a server refuses is sent to another one', async () => {
  const service = await startService(RULES);
  const dead = `127.0.0.1:${await freePort()}`;
  const client = await openClient({ target: [dead, service.grpc, service.http], batch: false });
  const decisions = [];
  for (let calls = 0; calls < 50; calls++) decisions.push(await client.limit('demo', { free: calls }));
  expect(decisions.filter(({ error }) => error).length).toBe(0);
  const { retries, servers } = client.stats();
  expect(retries).toBeGreaterThan(0);
  expect(servers.map(({ breaker }) => breaker === 'closed').slice(1)).toEqual([true, true]);
  for (const { sent, failed } of servers.slice(1)) expect([sent > 0, failed]).toEqual([true, 0]);
});
