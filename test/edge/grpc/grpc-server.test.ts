import '../../helpers/realm.ts';
import { once } from 'node:events';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from 'node:http2';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { credentials, Metadata, status } from '@grpc/grpc-js';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { Health } from '../../../src/edge/rls/health.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { Caller } from '../../../src/edge/rls/service.ts';
import { serverIdentity } from '../../../src/h2/identity/grpc-tls.ts';
import { openCertificates } from '../../../src/h2/listen/certificates.ts';
import type { GrpcServer } from '../../../src/h2/server.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { gate } from '../../helpers/gate.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { OK, type ServerChanges, startServer } from '../../helpers/grpc-server.ts';
import { framed } from '../../helpers/h2-client.ts';
import { healthMethods } from '../../helpers/health-methods.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { start as startProcess } from '../../helpers/process.ts';
import { fakeTimers } from '../../helpers/timers.ts';
import { until } from '../../helpers/until.ts';

const unlimited = { maxCount: 1_000, maxAgeMs: 0, maxAgeGraceMs: 0, keepaliveTimeMs: 0, keepaliveTimeoutMs: 0 };

let server: GrpcServer | undefined;
let client: GrpcClient | undefined;
afterEach(async () => {
  client?.close();
  await server?.close(0);
  server = undefined;
  client = undefined;
});

async function start(changes: ServerChanges = {}): Promise<GrpcClient> {
  server = await startServer(changes);
  client = createClient(server.target);
  return client;
}

/** A service that answers on command. */
function slowly() {
  const asked = gate();
  const answered = gate();
  const service: GrpcServerOptions['service'] = {
    async shouldRateLimit(_request, _caller, reply) {
      asked.open();
      await answered.passed;
      reply({ response: OK });
    },
  };
  return { service, asked: asked.passed, answer: answered.open };
}

const openSession = (): ClientHttp2Session => connectHttp2(`http://${server?.target}`).on('error', () => {});

/** Begins a call on a session. */
const open = (session: ClientHttp2Session, path: string, headers: object = {}): ClientHttp2Stream => {
  const head = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers };
  return session.request(head).on('error', () => {});
};

/** Requests a decision on a test's HTTP/2 connection. @returns the status */
async function askOn(session: ClientHttp2Session): Promise<string> {
  const message = shouldRateLimit.requestSerialize({ domain: 'demo', descriptors: [], hits_addend: 1 });
  const headers = { 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request({ ':method': 'POST', ':path': shouldRateLimit.path, ...headers });
  stream.on('error', () => {}).resume();
  const length = Buffer.alloc(5);
  length.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([length, message]));
  const [trailers] = await once(stream, 'trailers');
  return trailers['grpc-status'];
}

describe('a connection that reaches its maximum age', () => {
  test('is sent GOAWAY, and ends after its last call', async () => {
    const { service, asked, answer } = slowly();
    await start({ service, connections: { ...unlimited, maxAgeMs: 50, maxAgeGraceMs: 60_000 } });
    const session = openSession();
    const reply = askOn(session);
    await Promise.all([asked, once(session, 'goaway')]);
    expect(session.destroyed).toBe(false);
    answer();
    expect(await reply).toBe('0');
    if (!session.destroyed) await once(session, 'close');
  });

  test('ends after the grace period even with calls in flight', async () => {
    const { service, asked } = slowly();
    await start({ service, connections: { ...unlimited, maxAgeMs: 50, maxAgeGraceMs: 50 } });
    const isAsked = asked.then(() => true);
    await until('a connection with a call in flight has ended', async () => {
      const session = openSession();
      const closed = new Promise<boolean>((resolve) => session.once('close', () => resolve(false)));
      askOn(session).catch(() => {});
      if (!(await Promise.race([isAsked, closed]))) return false; // it has ended before its call arrived
      await closed;
      return true;
    });
  });

  /** A call that arrives just after GOAWAY is refused unprocessed, so it is safe to retry. */
  async function askAgain(asking: GrpcClient): Promise<unknown> {
    try {
      return await asking.ask();
    } catch (error) {
      if (!String(error).includes('Stream refused by server')) throw error;
      return askAgain(asking);
    }
  }

  test('does not lose a call', async () => {
    const asking = await start({ connections: { ...unlimited, maxAgeMs: 20, maxAgeGraceMs: 60_000 } });
    const session = openSession();
    let goaways = 0;
    session.on('goaway', () => goaways++);
    for (let round = 0; round < 50 || goaways === 0; round++)
      expect(await Promise.all(Array.from({ length: 20 }, () => askAgain(asking)))).toHaveLength(20);
    session.destroy();
  });

  // A Node timer with a delay above its maximum fires at once.
  test('accepts the longest age that can be set', async () => {
    await start({ connections: { ...unlimited, maxAgeMs: 2 ** 31 - 1, keepaliveTimeMs: 2 ** 31 - 1 } });
    const session = openSession();
    let wentAway = false;
    session.on('goaway', () => {
      wentAway = true;
    });
    for (let times = 0; times < 20; times++) expect(await askOn(session)).toBe('0');
    expect(wentAway).toBe(false);
    session.destroy();
  });
});

test.each([
  ['nothing', ''],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'],
])('a port full of connections that have sent %s serves new clients', async (_, text) => {
  await start({ connections: { ...unlimited, maxCount: 10 } });
  const { target = '' } = server ?? {};
  const sockets = Array.from({ length: 10 }, () => connect(Number(target.split(':').at(-1)), '127.0.0.1'));
  for (const socket of sockets) {
    await once(
      socket.on('error', () => {}),
      'connect',
    );
    socket.write(text);
  }
  // grpc-js counts a connection as idle after ten seconds
  await until('a call of a new client is answered', async () => {
    const asking = createClient(target);
    const isAnswered = await asking.ask().then(
      () => true,
      () => false,
    );
    asking.close();
    return isAnswered;
  });
  for (const socket of sockets) socket.destroy();
});

test('a server over TLS answers', async () => {
  const authority = createAuthority();
  const files = writeCertificate(mkdtempSync(join(tmpdir(), 'tls-')), 'server', authority.issue('127.0.0.1'));
  const certificates = openCertificates({ ...files, clientCa: undefined }, Date.now, () => {});
  await start({ tls: { certificates, clientName: undefined } });
  const { target = '' } = server ?? {};
  const { verify } = serverIdentity(target);
  const trusting = createClient(target, credentials.createSsl(Buffer.from(authority.cert), null, null, verify));
  expect(await trusting.ask()).toMatchObject({ overall_code: 1 });
  trusting.close();
  certificates.close();
});

test('a connection whose client does not answer pings is closed', async () => {
  await start({ connections: { ...unlimited, keepaliveTimeMs: 50, keepaliveTimeoutMs: 2_000 } }); // for the live one
  const live = openSession();
  const dead = connect(Number(server?.target.split(':').at(-1)), '127.0.0.1')
    .on('error', () => {})
    .resume();
  dead.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  dead.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])); // SETTINGS, none
  await once(dead, 'close');
  expect(await askOn(live)).toBe('0');
  live.destroy();
});

describe('a server on a unix socket', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'socket-'));
    path = join(folder, 'weir.sock');
  });

  test('answers, and removes its file on close', async () => {
    const asking = await start({ address: { path } });
    expect(server?.target).toBe(`unix:${path}`);
    expect(await asking.ask()).toMatchObject({ overall_code: 1 });
    await server?.close(0);
    expect(existsSync(path)).toBe(false);
  });

  test('replaces the stale socket of a dead server', async () => {
    const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => console.log('listening'))`;
    const other = await startProcess(process.execPath, ['-e', script]);
    await other.waitFor('listening');
    await other.stop('SIGKILL');
    expect(existsSync(path)).toBe(true);
    const asking = await start({ address: { path } });
    expect(await asking.ask()).toMatchObject({ overall_code: 1 });
  });

  test('refuses a socket that another server uses', async () => {
    const asking = await start({ address: { path } });
    await expect(startServer({ address: { path } })).rejects.toThrow(`another process listens on ${path}`);
    expect(await asking.ask()).toMatchObject({ overall_code: 1 });
  });

  test('refuses to replace a file that is not a socket', async () => {
    writeFileSync(path, 'precious');
    await expect(startServer({ address: { path } })).rejects.toThrow(`${path} exists and is not a socket`);
    expect(existsSync(path)).toBe(true);
  });

  test('reports a problem of the path', async () => {
    const nowhere = join(folder, 'nowhere', 'weir.sock');
    await expect(startServer({ address: { path: nowhere } })).rejects.toThrow(/EACCES|ENOENT/);
  });
});

test('the target of an IPv6 address has brackets', async () => {
  const asking = await start({ address: { host: '::1', port: 0 } });
  expect(server?.target).toMatch(/^\[::1\]:\d+$/);
  expect(await asking.ask()).toMatchObject({ overall_code: 1 });
});

test('a service can read the headers of a call, with repeated ones joined', async () => {
  const callers: Caller[] = [];
  const asking = await start({
    service: {
      async shouldRateLimit(_request, caller, reply) {
        callers.push(caller);
        reply({ response: OK });
      },
    },
  });
  const metadata = new Metadata();
  metadata.add('b3', 'one');
  metadata.add('TraceState', 'one=1');
  metadata.add('tracestate', 'two=2');
  await asking.ask('demo', metadata);
  expect(['b3', 'tracestate', 'traceparent'].map((name) => callers[0]?.header(name))).toEqual([
    'one',
    'one=1, two=2',
    undefined,
  ]);
});

test('each answered unary call is reported with its status', async () => {
  const calls: unknown[] = [];
  const asking = await start({
    service: {
      async shouldRateLimit({ domain }, _caller, reply) {
        if (domain === 'demo') reply({ response: OK });
        else reply({ error: { code: status.UNAVAILABLE, details: 'no such domain' } });
      },
    },
    onCallFinished: (method, grpcStatus, elapsedMs) => calls.push([method, grpcStatus, elapsedMs]),
  });
  await asking.ask();
  await expect(asking.ask('other')).rejects.toMatchObject({ code: status.UNAVAILABLE, details: 'no such domain' });
  expect(await asking.check()).toEqual({ status: 'SERVING' });
  await expect(asking.check('unknown')).rejects.toMatchObject({ code: status.NOT_FOUND });
  await once(asking.watch(), 'data');
  expect(calls).toEqual([
    ['ShouldRateLimit', status.OK, expect.any(Number)],
    ['ShouldRateLimit', status.UNAVAILABLE, expect.any(Number)],
    ['Check', status.OK, expect.any(Number)],
    ['Check', status.NOT_FOUND, expect.any(Number)],
  ]);
});

describe('a deadline, on either transport,', () => {
  /** Sends a call with this `grpc-timeout` over plain HTTP/2, since a gRPC client would enforce its deadline itself. */
  async function askWithin(timeout: string | undefined, answerAfterMs = 0) {
    const timeouts: number[] = [];
    const calls: status[] = [];
    await start({
      service: {
        async shouldRateLimit(_request, caller, reply) {
          timeouts.push(caller.timeoutMs);
          setTimeout(() => reply({ response: OK }), answerAfterMs);
        },
      },
      onCallFinished: (_method, grpcStatus) => calls.push(grpcStatus),
    });
    const session = openSession();
    const stream = open(session, shouldRateLimit.path, timeout === undefined ? {} : { 'grpc-timeout': timeout });
    const message = { domain: 'demo', descriptors: [], hits_addend: 1 };
    stream.end(framed(shouldRateLimit.requestSerialize(message))).resume();
    const heads = ['response', 'trailers'].map((event) => once(stream, event).then(([head]) => head['grpc-status']));
    const grpcStatus = Number(
      await Promise.race(heads.map((head) => head.then((code) => code ?? new Promise(() => {})))),
    );
    await new Promise((resolve) => session.close(() => resolve(undefined)));
    return { grpcStatus, timeoutMs: timeouts[0], calls };
  }

  test.each([
    ['20S', 20_000],
    ['20000m', 20_000],
    ['3H', 10_800_000],
  ])('of %s is passed to the service as the time left', async (timeout, timeoutMs) => {
    const asked = await askWithin(timeout);
    expect(asked).toMatchObject({ grpcStatus: status.OK, calls: [status.OK] });
    expect(asked.timeoutMs).toBeGreaterThan(timeoutMs - 10_000);
    expect(asked.timeoutMs).toBeLessThanOrEqual(timeoutMs);
  });

  test('that is absent gives the service unlimited time', async () => {
    expect(await askWithin(undefined)).toMatchObject({ grpcStatus: status.OK, timeoutMs: Number.POSITIVE_INFINITY });
  });

  test('that passes while the service works is answered and counted with DEADLINE_EXCEEDED', async () => {
    const { grpcStatus, calls } = await askWithin('20m', 200);
    expect(grpcStatus).toBe(status.DEADLINE_EXCEEDED);
    await until('the service has answered', () => calls.length > 0);
    expect(calls).toEqual([status.DEADLINE_EXCEEDED]);
  });

  test('that is malformed is refused with INTERNAL without calling the service', async () => {
    expect(await askWithin('1 hour')).toMatchObject({ grpcStatus: status.INTERNAL, timeoutMs: undefined });
  });
});

test('a health Watch receives NOT_SERVING before a closing server ends the connection', async () => {
  const health = new Health(() => ({ ready: true, reasons: [] }));
  const stream = (await start({ health })).watch();
  const seen: string[] = [];
  stream.on('data', ({ status: now }) => seen.push(now));
  await once(stream, 'data');
  const ended = once(stream, 'error'); // CANCELLED, say
  health.close();
  await server?.close(60_000);
  await ended;
  expect(seen).toEqual(['SERVING', 'NOT_SERVING']);
});

describe('health', () => {
  let health: Health;
  let ready: boolean;
  beforeEach(() => {
    ready = true;
    health = new Health(() => ({ ready, reasons: [] }));
  });
  afterEach(() => health.close());

  const watches = (count: number): Promise<void> => until(`${count} open watches`, () => health.openWatches === count);

  test('List shows only the service and the process, also after other names were requested', async () => {
    const asking = await start({ health });
    await once(asking.watch('other'), 'data');
    await expect(asking.check('another')).rejects.toMatchObject({ code: status.NOT_FOUND });
    ready = false;
    expect(await asking.list()).toEqual({
      statuses: { '': { status: 'SERVING' }, ratelimit: { status: 'NOT_SERVING' } },
    });
  });

  test('a Watch of an unknown name stays open and never changes', async () => {
    const asking = await start({ health });
    const stream = asking.watch('other');
    const seen: string[] = [];
    stream.on('data', ({ status: now }) => seen.push(now));
    await once(stream, 'data');
    ready = false;
    expect(await asking.check()).toEqual({ status: 'NOT_SERVING' });
    expect([seen, health.openWatches]).toEqual([['SERVICE_UNKNOWN'], 1]);
  });

  test.each<[string, object, (session: ClientHttp2Session, stream: ClientHttp2Stream) => void]>([
    ['is cancelled', {}, (_session, stream) => stream.close(constants.NGHTTP2_CANCEL)],
    ['loses its connection', {}, (session) => session.destroy()],
    ['reaches its deadline', { 'grpc-timeout': '1S' }, () => {}],
  ])('a Watch is forgotten when it %s', async (_how, headers, end) => {
    await start({ health });
    const session = openSession();
    for (const name of ['ratelimit', '', 'other']) {
      const stream = open(session, '/grpc.health.v1.Health/Watch', headers);
      stream.end(framed(healthMethods.Watch.requestSerialize({ service: name })));
      await once(stream, 'data');
      await watches(1);
      end(session, stream);
      await watches(0);
      if (session.destroyed) break;
    }
    session.destroy();
  });

  // 4 MiB of one letter compress to 4 KB.
  test('a Watch keeps nothing of the name that its client sent', async () => {
    await start({ health });
    const session = openSession();
    const ask = async (at: number): Promise<void> => {
      const name = `${at}`.padEnd(4_000_000, 'x');
      const stream = open(session, '/grpc.health.v1.Health/Watch', { 'grpc-encoding': 'gzip' });
      stream.end(framed(gzipSync(healthMethods.Watch.requestSerialize({ service: name })), 1));
      await Promise.race([once(stream, 'data'), once(stream, 'end')]);
    };
    await ask(0);
    const before = heapBytes();
    for (let at = 1; at <= 5; at++) await ask(at);
    const isFreed = () => heapBytes() - before < 4_000_000;
    await until('the names are freed', isFreed);
    session.destroy();
    await watches(0);
    await until('nothing is left', isFreed);
  });
});

describe('a reflection stream', () => {
  const listServices = framed(Buffer.of(0x3a, 0));
  const reflect = (session: ClientHttp2Session): ClientHttp2Stream =>
    open(session, '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo');

  test('ends with OK when its client has sent nothing for 60 s', async () => {
    const timers = fakeTimers();
    await start({ startTimer: timers.start });
    const session = openSession();
    const stream = reflect(session);
    const trailers = once(stream, 'trailers');
    for (let times = 0; times < 3; times++) {
      stream.write(listServices);
      await once(stream, 'data');
      timers.advance(59_999);
    }
    expect(timers.count()).toBe(1);
    timers.advance(1);
    expect((await trailers)[0]).toMatchObject({ 'grpc-status': '0' });
    expect(timers.count()).toBe(0);
    session.destroy();
  });

  test('ends with OK after 60 s when its client never sends anything', async () => {
    const timers = fakeTimers();
    await start({ startTimer: timers.start });
    const session = openSession();
    const stream = reflect(session).resume();
    await until('a timer', () => timers.count() > 0);
    timers.advance(60_000);
    const fields: object[] = [];
    for (const event of ['response', 'trailers']) stream.on(event, (came) => fields.push(came)); // the status may be in either
    await once(stream, 'end');
    expect(Object.assign({}, ...fields)).toMatchObject({ 'grpc-status': '0' });
    session.destroy();
  });

  test('answers only a few requests of a client that does not read', async () => {
    let answered = 0;
    await start({ startTimer: () => ({ restart: () => void answered++, stop: () => {} }) });
    const session = connectHttp2(`http://${server?.target}`, { settings: { initialWindowSize: 0 } });
    const stream = reflect(session.on('error', () => {}));
    stream.write(Buffer.concat(Array.from({ length: 5_000 }, () => listServices)));
    await once(stream, 'response');
    for (let times = 0; times < 10; times++) await new Promise((resolve) => session.ping(resolve));
    expect(answered).toBeGreaterThan(0);
    expect(answered).toBeLessThan(50);
    session.destroy();
  });

  test.each<[string, (session: ClientHttp2Session, stream: ClientHttp2Stream) => void]>([
    ['its client ends it', (_session, stream) => stream.end()],
    ['its client cancels it', (_session, stream) => stream.close(constants.NGHTTP2_CANCEL)],
    ['its connection closes', (session) => session.destroy()],
    ['one of its messages cannot be decoded', (_session, stream) => stream.write(framed(Buffer.of(0x3a)))],
  ])('leaves no timer when %s', async (_how, end) => {
    const timers = fakeTimers();
    await start({ startTimer: timers.start });
    const session = openSession();
    const stream = reflect(session).resume();
    stream.write(listServices);
    await once(stream, 'data');
    expect(timers.count()).toBe(1);
    end(session, stream);
    await until('no timer', () => timers.count() === 0);
    session.destroy();
  });
});

test('connections beyond the limit are closed at once and reported if all others are in use, until one ends', async () => {
  const codes: string[] = [];
  const connections = { ...unlimited, maxCount: 2 };
  await start({ connections, onConnectionError: (code) => codes.push(code) });
  const [first, second] = [openSession(), openSession()];
  for (const session of [first, second]) open(session, shouldRateLimit.path); // so it is in use
  expect([await askOn(first), await askOn(second)]).toEqual(['0', '0']);
  const refused = openSession();
  await new Promise((resolve) => refused.once('close', resolve)); // after an error, if it had sent something
  expect(codes).toEqual(['TOO_MANY_CONNECTIONS']);
  expect(await askOn(second)).toBe('0');
  first.destroy();
  await once(first, 'close');
  let third = openSession();
  const isRefused = (session: ClientHttp2Session): Promise<boolean> =>
    askOn(session).then(
      () => false,
      () => true,
    );
  const hasClosed = (session: ClientHttp2Session): Promise<boolean> =>
    new Promise((resolve) => session.once('close', () => resolve(true)));
  while (await Promise.race([isRefused(third), hasClosed(third)])) third = openSession(); // the server has not noticed yet
  expect(await askOn(third)).toBe('0');
  for (const session of [second, third]) session.destroy();
});

test('a shed call does not reach the service, and the next call does', async () => {
  const refusals = [{ code: status.RESOURCE_EXHAUSTED, details: 'too much' }, undefined];
  let asked = 0;
  const asking = await start({
    service: {
      async shouldRateLimit(_request, _caller, reply) {
        asked++;
        reply({ response: OK });
      },
    },
    overload: overloadOf({ refusal: () => refusals.shift() }),
  });
  await expect(asking.ask()).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: 'too much' });
  expect(asked).toBe(0);
  expect(await asking.ask()).toMatchObject({ overall_code: OK.overall_code });
  expect(asked).toBe(1);
  expect(await asking.check()).toEqual({ status: 'SERVING' }); // even if other calls are refused
});
