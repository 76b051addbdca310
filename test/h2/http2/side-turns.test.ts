import '../../helpers/realm.ts';
import { gzipSync } from 'node:zlib';
import { field } from '../../../proof/attack/messages.ts';
import type { Overload } from '../../../src/edge/overload/overload.ts';
import { Health } from '../../../src/edge/rls/health.ts';
import { sideTurns } from '../../../src/h2/http2/side-turns.ts';
import { allServices } from '../../helpers/all-services.ts';
import {
  call,
  callHead,
  data,
  framed,
  message,
  openRaw,
  type RawClient,
  windowUpdate,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';
import { until } from '../../helpers/until.ts';

const CONNECTIONS = 60;
const CHECKS = 600;
/** Maximum checks in a turn, of 250 units each, from the common share and each connection's own. */
const MAX_PER_TURN = 32_768 / 250 + (CONNECTIONS + 1) * (2_048 / 250 + 1);

const CHECK = '/grpc.health.v1.Health/Check';
const REFLECT = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
const QUOTAS = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas';
const MIB = 2 ** 20;
const gzipped = framed(gzipSync(Buffer.concat([Buffer.of(0x0a, 9), Buffer.from('ratelimit')])), 1);
const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

const check = (streamId: number): Buffer =>
  Buffer.concat([callHead(streamId, { ':path': CHECK, 'grpc-encoding': 'gzip' }), data(streamId, gzipped, true)]);
const manyChecks = (count: number): Buffer => Buffer.concat(range(count).map((at) => check(at * 2 + 1)));
const checks = manyChecks(CHECKS);
const LAST = CHECKS * 2 - 1;

let overload: Overload;
let server: H2Server;
let clients: RawClient[];
let onCheck: () => void;
beforeEach(async () => {
  onCheck = () => {};
  const readiness = () => {
    onCheck();
    return { ready: true, reasons: [] };
  };
  overload = overloadOf();
  server = await startH2({ health: new Health(readiness), overload });
  clients = [];
});
afterEach(async () => {
  for (const client of clients) client.close();
  await server.close(0);
});

async function open(): Promise<RawClient> {
  const client = await openRaw(server.port);
  await client.settled();
  clients.push(client);
  return client;
}

/** Sends on all connections together, so that the server finds input on each. */
async function flood(): Promise<void> {
  for (const client of clients) client.send(checks);
  for (const client of clients) expect((await client.reply(LAST)).fields).toMatchObject({ 'grpc-status': '0' });
}

test('compressed health checks on many connections are handled in many turns, each a share of them', async () => {
  for (let count = 0; count < CONNECTIONS; count++) await open();
  let handled = 0;
  const most = await mostStepsInATurn((step) => {
    onCheck = () => {
      handled++;
      step();
    };
    return flood();
  });
  expect(handled).toBe(CONNECTIONS * CHECKS);
  expect(most).toBeLessThan(MAX_PER_TURN);
});

test('others are answered while connections wait: a client with a few more checks than its share waits for a share each', async () => {
  for (let count = 0; count < CONNECTIONS; count++) await open();
  const other = await openRaw(server.port);
  let handled = 0;
  onCheck = () => {
    handled++;
  };
  const flooding = flood();
  other.send(manyChecks(30));
  await other.reply(59);
  expect(handled).toBeLessThan(5 * (CONNECTIONS + 1) * (2_048 / 250 + 1) + MAX_PER_TURN * 2);
  for (const at of range(8)) {
    const streamId = 61 + at * 4;
    other.send(check(streamId), call(streamId + 2));
    expect((await other.reply(streamId)).fields).toMatchObject({ 'grpc-status': '0' });
    expect((await other.reply(streamId + 2)).fields).toMatchObject({ 'grpc-status': '0' });
  }
  expect(handled).toBeLessThan((CONNECTIONS * CHECKS) / 2);
  await flooding;
  other.close();
});

test('the server reads no more from a connection that waits for its turn', async () => {
  for (let count = 0; count < 10; count++) await open();
  let most = 0;
  onCheck = () => {
    most = Math.max(most, overload.memory.bytes);
  };
  const many = manyChecks(3_000);
  for (const client of clients) client.send(many);
  for (const client of clients) await client.reply(5_999);
  expect(many.length).toBeGreaterThan(4 * 65_536);
  expect(most).toBeLessThan(10 * (16_384 + 2 * 65_536));
});

test('a client that disconnects while its health checks wait does not affect the turns of others', async () => {
  for (let count = 0; count < 4; count++) await open();
  const gone = await openRaw(server.port);
  gone.send(checks);
  for (const client of clients) client.send(checks);
  onCheck = () => {
    onCheck = () => {};
    gone.socket.resetAndDestroy();
  };
  for (const client of clients) expect((await client.reply(LAST)).fields).toMatchObject({ 'grpc-status': '0' });
});

test('decisions, compressed or not, take no turns of side services', async () => {
  const client = await open();
  const before = sideTurns.number;
  const zipped = framed(gzipSync(message), 1);
  for (const at of range(1_000)) {
    const streamId = at * 4 + 1;
    client.send(call(streamId), callHead(streamId + 2, { 'grpc-encoding': 'gzip' }), data(streamId + 2, zipped, true));
  }
  expect((await client.reply(3_999)).fields).toMatchObject({ 'grpc-status': '0' });
  expect(sideTurns.number).toBe(before);
});

test('all but the first connections of a turn have only a small share besides the common one', () => {
  sideTurns.wake();
  const shares = range(1_000).map(() => sideTurns.ownShare());
  expect(shares.reduce((sum, share) => sum + share)).toBeLessThanOrEqual(64 * 2_048 + 936 * 256);
  expect(Math.min(...shares)).toBeGreaterThan(250); // a compressed health check need not wait
});

test('a connection that has ended waits no more', async () => {
  const gone = { proceed: jest.fn() };
  const waiting = { proceed: jest.fn() };
  sideTurns.wait(gone);
  sideTurns.wait(waiting);
  sideTurns.forget(gone);
  await until('another one goes on', () => waiting.proceed.mock.calls.length > 0);
  expect(gone.proceed).not.toHaveBeenCalled();
});

describe('a stream of quota reports that unpack to megabytes', () => {
  const REPORTS = 20;
  const OCTETS = 3 * MIB;
  const report = framed(gzipSync(Buffer.concat([field(1, Buffer.from('demo')), field(15, Buffer.alloc(OCTETS))])), 1);

  test('takes as many turns as unpacking requires, and continues', async () => {
    await server.close(0);
    const bounds = { counterBytes: MIB, shareBytes: MIB, maxBuckets: 10 };
    server = await startH2(allServices(rulesFrom('domain: demo'), bounds));
    const client = await open();
    const before = sideTurns.number;
    client.send(callHead(1, { ':path': QUOTAS, 'grpc-encoding': 'gzip' }));
    for (let count = 0; count < REPORTS; count++) client.send(data(1, report));
    client.send(data(1, Buffer.alloc(0), true));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
    expect(sideTurns.number - before).toBeGreaterThan((REPORTS * OCTETS) / 64 / 32_768 / 2);
  });
});

describe('a stream of questions', () => {
  const question = framed(gzipSync(Buffer.of(0x3a, 0)), 1); // list_services

  async function openStream(): Promise<RawClient> {
    const client = await open();
    client.send(windowUpdate(0, 2 ** 30), callHead(1, { ':path': REFLECT, 'grpc-encoding': 'gzip' }));
    client.send(windowUpdate(1, 2 ** 30), data(1, question));
    await client.find(({ streamId }) => streamId === 1);
    return client;
  }

  test('is answered in several turns', async () => {
    const client = await openStream();
    const before = sideTurns.number;
    for (let count = 0; count < 1_000; count++) client.send(data(1, question));
    client.send(data(1, Buffer.alloc(0), true));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
    expect(sideTurns.number - before).toBeGreaterThan(1_000 / (32_768 / 250) - 1);
  });

  test('ends when a frame has many more than a turn allows', async () => {
    const client = await openStream();
    client.send(data(1, Buffer.concat(range(500).map(() => question))));
    const { fields } = await client.reply(1);
    expect(fields).toMatchObject({ 'grpc-status': '8', 'grpc-message': 'too many messages at once: wait for answers' });
    client.send(check(3));
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });
});
