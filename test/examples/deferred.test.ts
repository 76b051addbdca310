import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { closeAll, closeLater, startService } from '../client/service.ts';
import { freePort, type Running } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { openExample } from './example.ts';

const POLL_MS = 100;

/** The burst of a user in the rules. */
const BURST = 5;

let redis: Redis;
let front: string;
let worker: Running;
let startWorker: () => Promise<Running>;

beforeAll(async () => {
  const example = await openExample('deferred');
  const folder = mkdtempSync(join(tmpdir(), 'deferred-'));
  redis = await startRedis({ folder });
  closeLater(() => redis.stop());
  // so slow that requests are refused even if each takes long
  const service = await startService(example.rules.replace('requests_per_unit: 5', 'requests_per_unit: 2'));
  const [upstreamPort, intakePort] = [await freePort(), await freePort()];
  const shared = { REDIS_PORT: String(redis.port) };
  const run = async (program: string, env: Readonly<Record<string, string>>) => {
    const ready = `${program.replace('.mjs', '')} is ready`;
    const running = await example.run(program, { env: { ...shared, ...env }, ready });
    closeLater(() => running.stop());
    return running;
  };
  await run('upstream.mjs', { PORT: String(upstreamPort) });
  await run('intake.mjs', { PORT: String(intakePort) });
  const UPSTREAM = `http://127.0.0.1:${upstreamPort}`;
  startWorker = () => run('worker.mjs', { UPSTREAM, WEIR: service.grpc, LOCK_MS: '3000' });
  worker = await startWorker();
  const ports = new Map([
    [8000, upstreamPort],
    [8002, intakePort],
    [8081, service.grpcPort],
  ]);
  const envoy = await example.startEnvoy(ports);
  closeLater(() => envoy.stop());
  front = `http://127.0.0.1:${envoy.port}`;
});
afterAll(closeAll);

const post = (user: string, body: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${front}/orders`, { method: 'POST', body, headers: { 'x-user': user, ...headers } });

interface Report {
  readonly status: string;
  readonly response?: { readonly status: number; readonly body: string };
}

async function statusOf(user: string, location: string): Promise<Report> {
  const response = await fetch(`${front}${location}`, { headers: { 'x-user': user } });
  return (await response.json()) as Report; // written by the intake
}

/** The response to a deferred request, once there is one. */
async function responseTo(user: string, location: string): Promise<NonNullable<Report['response']>> {
  for (;;) {
    const { status, response } = await statusOf(user, location);
    if (response) return response;
    if (status === 'failed' || status === 'unknown') throw new Error(`${location} is ${status}`);
    await sleep(POLL_MS);
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** The upstream's orders of this user, in the order of arrival. */
async function ordersOf(user: string): Promise<readonly string[]> {
  const response = await fetch(`${front}/orders`, { headers: { 'x-user': 'operator' } });
  const orders = (await response.json()) as { readonly user: string; readonly sha256: string }[]; // written by the upstream
  return orders.filter((order) => order.user === user).map((order) => order.sha256);
}

test('a refused POST is accepted with 202, and runs later with its body, in order for each user', async () => {
  const bodies: string[] = [];
  const answers: Response[] = [];
  while (answers.length < 2 * BURST || answers.every(({ status }) => status !== 202)) {
    const body = `${bodies.length} `.repeat(10_000);
    bodies.push(body);
    answers.push(await post('ann', body));
  }
  const codes = answers.map(({ status }) => status);
  expect(new Set(codes)).toEqual(new Set([201, 202]));
  expect(codes.slice(0, BURST)).toEqual(Array(BURST).fill(201));
  const deferred = answers.flatMap(({ status, headers }, at) =>
    status === 202 ? [{ at, location: headers.get('location') ?? '' }] : [],
  );
  for (const { location } of deferred) expect((await responseTo('ann', location)).status).toBe(201);
  const orders = await ordersOf('ann');
  expect([...orders].sort()).toEqual(bodies.map(sha256).sort());
  const later = deferred.map(({ at }) => sha256(bodies[at] ?? ''));
  expect(orders.filter((order) => later.includes(order))).toEqual(later);
});

test('every accepted request runs once, even if Redis restarts and the worker is killed meanwhile', async () => {
  const bodies = Array.from({ length: 3 * BURST }, (_, at) => `order ${at}`);
  const answers = await Promise.all(bodies.map((body) => post('bob', body)));
  expect(answers.filter(({ status }) => status === 202).length).toBeGreaterThan(0);
  expect(answers.filter(({ status }) => status !== 201 && status !== 202)).toEqual([]);
  await redis.kill();
  await redis.restart();
  await worker.stop('SIGKILL');
  worker = await startWorker();
  const locations = answers.flatMap(({ headers }) => headers.get('location') ?? []);
  for (const location of locations) expect((await responseTo('bob', location)).status).toBe(201);
  expect([...(await ordersOf('bob'))].sort()).toEqual(bodies.map(sha256).sort());
});

test('a client that repeats a deferred request gets the same job, and no other user sees it', async () => {
  for (let at = 0; at < BURST; at++) await post('cem', `first ${at}`);
  const headers = { 'idempotency-key': 'order-7' };
  let answer = await post('cem', 'seven', headers);
  while (answer.status !== 202) answer = await post('cem', 'seven', headers);
  const location = answer.headers.get('location') ?? '';
  const again = await post('cem', 'seven', headers);
  if (again.status === 202) expect(again.headers.get('location')).toBe(location);
  expect(await statusOf('dee', location)).toEqual({ status: 'unknown' });
  expect((await responseTo('cem', location)).status).toBe(201);
});

test('a request that is not a POST is refused with 429', async () => {
  const answers: number[] = [];
  while (answers.length < 4 * BURST || !answers.includes(429))
    answers.push((await fetch(`${front}/orders`, { headers: { 'x-user': 'eve' } })).status);
  expect(answers).toContain(429);
  expect(answers).not.toContain(202);
});
