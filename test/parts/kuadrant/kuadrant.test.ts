import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createEstimates } from '../../../src/engine/ledger/estimates.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { hostKuadrant } from '../../../src/parts/kuadrant/offer.ts';
import { createKuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { grpcurl } from '../../helpers/tools.ts';

const rules = rulesFrom(`
domain: llm
descriptors:
  - key: tenant
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 1000, reserve: {ttl: 30s}}}
  - key: model
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 500, reserve: {ttl: 10s}}}
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 100}}
  - {key: running, rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 10s}}
`);

/** The output of a failed call of grpcurl. */
interface Failed {
  readonly stderr: string;
}

/** Calls methods of the service like a client that knows it only by reflection. */
type Call = (method: string, request: object) => Promise<Record<string, unknown>>;

const clock = fakeClock();

const inMemory = (): Backend => createMemoryBackend(clock, { maxCounters: 100 });

async function withClient(
  use: (call: Call) => Promise<void>,
  atomic: Backend['atomic'] = 'request',
  backend: Backend = inMemory(),
) {
  const ledger = ledgerOf(backend, { denyCacheBytes: 10_000 });
  const decider: ServiceDecider = {
    ...deciderOf(rules),
    storeBudget: () => 60_000,
    estimates: createEstimates(),
    ledger: {
      debit: (request, how) => ledger.debit(request, how),
      refund: (receipt) => ledger.refund(receipt),
      atomic,
    },
  };
  const limits = createKuadrantLimits(decider, createReservations(decider));
  const server = await startServer({ others: [hostKuadrant(async () => createKuadrantService(limits, extrasOf()))] });
  const program = await grpcurl();
  const service = 'kuadrant.service.ratelimit.v1.RateLimitService';
  try {
    await use(async (method, request) => {
      const body = JSON.stringify({ domain: 'llm', ...request });
      const args = ['-plaintext', '-d', body, server.target, `${service}/${method}`];
      return JSON.parse((await promisify(execFile)(program, args)).stdout);
    });
  } finally {
    await server.close(0);
  }
}

const of = (...keys: string[]) => ({ descriptors: keys.map((key) => ({ entries: [{ key, value: 'a' }] })) });

let redis: Redis;
let onRedis: Backend;
beforeAll(async () => {
  redis = await startRedis();
  onRedis = new RedisBackend(await openReady(redis), Date.now);
});
afterAll(async () => {
  await onRedis.close();
  await redis.stop();
});

test.each<[string, () => Backend]>([
  ['memory', inMemory],
  ['Redis', () => onRedis],
])('a check charges nothing, and a report charges regardless of the limit, in %s', (_store, open) =>
  withClient(
    async (call) => {
      const check = (key: string) => call('CheckRateLimit', of(key));
      for (const key of ['plain', 'tenant']) {
        for (let times = 0; times < 3; times++) expect(await check(key)).toMatchObject({ overallCode: 'OK' });
        const used = key === 'plain' ? 100 : 1_000;
        expect(await call('Report', { ...of(key), hitsAddend: used - 1 })).toEqual({ overallCode: 'OK' });
        expect(await check(key)).toMatchObject({ overallCode: 'OK', statuses: [{ limitRemaining: 1 }] });
        expect(await call('Report', { ...of(key), hitsAddend: 50 })).toEqual({ overallCode: 'OK' });
        expect(await check(key)).toMatchObject({ overallCode: 'OVER_LIMIT' });
        const given = { ...of(key).descriptors[0], hitsAddend: 50, isNegativeHits: true };
        await call('Report', { descriptors: [given] });
        expect(await check(key)).toMatchObject({ overallCode: 'OK' });
      }
      expect(await check('unknown')).toMatchObject({ overallCode: 'OK' });
    },
    'request',
    open(),
  ),
);

test('a reservation is not available to others until its use is committed', () =>
  withClient(async (call) => {
    const reserve = (amount: number) => call('Reserve', { ...of('tenant'), amount, ttl: '30s' });
    const commit = (reservationId: unknown, actualAmount: number) =>
      call('Commit', { ...of('tenant'), reservationId, actualAmount });
    const { code, reservationId: first } = await reserve(600);
    expect([code, first]).toEqual(['OK', expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    expect(await reserve(600)).toEqual({ code: 'OVER_LIMIT' });
    expect(await call('CheckRateLimit', { ...of('tenant'), hitsAddend: 400 })).toMatchObject({ overallCode: 'OK' });
    expect(await call('CheckRateLimit', { ...of('tenant'), hitsAddend: 401 })).toMatchObject({
      overallCode: 'OVER_LIMIT',
    });
    expect(await commit(first, 300)).toEqual({ reservationReleased: true });
    expect(await commit(first, 300)).toEqual({}); // charged once
    const { reservationId: second } = await reserve(700);
    expect(second).toBeDefined();
    expect(await reserve(1)).toEqual({ code: 'OVER_LIMIT' });
    clock.advance(30_000);
    expect(await commit(second, 100)).toEqual({}); // late, but still charged
    expect(await commit('unknown', 100)).toEqual({});
    expect(await commit('', 100)).toEqual({});
    expect(await reserve(401)).toEqual({ code: 'OVER_LIMIT' });
    expect(await reserve(400)).toMatchObject({ code: 'OK' });
    expect(await reserve(0)).toMatchObject({ code: 'OK' });
  }));

test.each(['request', 'counter'] as const)(
  'all limits are reserved or none, if each %s is one step, and limits without reserve need room and are charged at the end',
  (atomic) =>
    withClient(async (call) => {
      const all = of('tenant', 'model', 'plain', 'running');
      const reserve = (amount: number) => call('Reserve', { ...all, amount });
      expect(await reserve(101)).toEqual({ code: 'OVER_LIMIT' });
      const { code, reservationId } = await reserve(60);
      expect(code).toBe('OK');
      expect(await call('Reserve', { ...of('tenant', 'model'), amount: 441 })).toEqual({ code: 'OVER_LIMIT' });
      expect(await call('Reserve', { ...of('tenant'), amount: 940 })).toMatchObject({ code: 'OK' });
      const commit = { ...all, reservationId, actualAmount: 70 };
      expect(await call('Commit', commit)).toEqual({ reservationReleased: true });
      expect(await call('Commit', commit)).toEqual({});
      expect(await call('CheckRateLimit', of('plain'))).toMatchObject({ statuses: [{ limitRemaining: 30 }] });
      expect(await call('CheckRateLimit', of('running'))).toMatchObject({ overallCode: 'OK' });
      const { reservationId: plain } = await call('Reserve', { ...of('plain'), amount: 30 });
      expect(await call('Commit', { ...of('plain'), reservationId: plain, actualAmount: 30 })).toEqual({});
      expect(await call('Reserve', { ...of('plain'), amount: 1 })).toEqual({ code: 'OVER_LIMIT' });
    }, atomic),
);

test.each([
  ['CheckRateLimit', 'rate limit domain must not be empty', { domain: '', ...of('plain') }],
  ['Report', 'rate limit descriptor list must not be empty', {}],
  ['Reserve', 'at most 64 descriptors, got 65', of(...Array(65).fill('plain'))],
])('%s refuses a request: %s', (method, problem, request) =>
  withClient(async (call) => {
    const failed = await call(method, request).catch(({ stderr }: Failed) => stderr);
    expect(failed).toMatch(/InvalidArgument/);
    expect(failed).toContain(problem);
  }),
);
