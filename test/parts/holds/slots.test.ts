import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { Overrides, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { holdsService } from '../../../src/parts/holds/methods.ts';
import { hostHolds } from '../../../src/parts/holds/offer.ts';
import { CallerGone } from '../../../src/parts/holds/queues.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createHoldsService } from '../../../src/parts/holds/service.ts';
import { createSlots, type Slots } from '../../../src/parts/holds/slots.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { gate } from '../../helpers/gate.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { eventually } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: queue
    descriptors:
      - {key: job, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 30s}}
  - key: tenant
    descriptors:
      - {key: job, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 10s}}
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: room, rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 10s}}
`);

const LONG_MS = 60_000; // longer than the test
const none = () => {};
const caller = callerOf();

type Entries = readonly { readonly key: string; readonly value: string }[];
const entriesOf = (key: string, job: string): Entries => [
  { key, value: 'a' },
  { key: 'job', value: job },
];
const requestOf = (job: string, keys: readonly string[] = ['queue'], hits = 1) => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({ entries: entriesOf(key, job), requestLimit: undefined, hits })),
});

function deciderOn(backend: Backend, atomic: Backend['atomic'] = 'request'): ServiceDecider {
  const ledger = ledgerOf(backend);
  return {
    ...deciderOf(rules),
    storeBudget: () => 60_000,
    ledger: {
      debit: (request, how) => ledger.debit(request, how),
      refund: (receipt) => ledger.refund(receipt),
      atomic,
    },
  };
}
const slotsOn = (...on: Parameters<typeof deciderOn>): Slots => createSlots(deciderOn(...on));
const servicesOf = (decider: ServiceDecider) => [createSlots(decider), createReservations(decider)] as const;
const memory = (clock = fakeClock()) => createMemoryBackend(clock, { maxCounters: 100 });

test('slots are held until they are released, which may be repeated', async () => {
  const slots = slotsOn(memory());
  const take = async (job: string) => (await slots.acquire(requestOf(job), 0, caller)).held;
  expect([await take('1'), await take('2'), await take('3'), await take('1')]).toEqual([true, true, false, true]);
  await slots.release(requestOf('3'), caller);
  expect(await take('4')).toBe(false);
  await slots.release(requestOf('1'), caller);
  await slots.release(requestOf('1'), caller);
  expect([await take('4'), await take('5')]).toEqual([true, false]);
});

test('a holder that renews keeps its slot beyond the ttl, and one that does not loses it', async () => {
  const clock = fakeClock();
  const slots = slotsOn(memory(clock));
  const take = (job: string) => slots.acquire(requestOf(job), 0, caller);
  await take('1');
  await take('2');
  clock.advance(20_000);
  expect(await take('1')).toEqual({ held: true, ttlMs: 30_000, retryAfterMs: 0 });
  expect(await take('3')).toEqual({ held: false, ttlMs: 30_000, retryAfterMs: 10_000 });
  clock.advance(15_000);
  expect([(await take('3')).held, (await take('2')).held, (await take('1')).held]).toEqual([true, false, true]);
});

test.each(['request', 'counter'] as const)(
  'a request gets the slots of all its limits or none, if each %s is one step',
  async (atomic) => {
    const slots = slotsOn(memory(), atomic);
    const take = async (job: string, keys: readonly string[]) =>
      (await slots.acquire(requestOf(job, keys), 0, caller)).held;
    expect(await take('1', ['queue', 'tenant'])).toBe(true);
    expect(await take('2', ['queue', 'tenant'])).toBe(false);
    expect([await take('3', ['queue']), await take('4', ['queue'])]).toEqual([true, false]);
  },
);

test('callers that wait for slots get them in order, and never more than there are', async () => {
  const slots = slotsOn(memory());
  const served: number[] = [];
  let [held, most] = [0, 0];
  const work = async (job: number): Promise<void> => {
    expect(await slots.acquire(requestOf(String(job)), LONG_MS, caller)).toMatchObject({ held: true });
    served.push(job);
    most = Math.max(most, ++held);
    await sleep(1);
    held--;
    await slots.release(requestOf(String(job)), caller);
  };
  await Promise.all(Array.from({ length: 40 }, (_, job) => work(job)));
  expect(served).toEqual(Array.from({ length: 40 }, (_, job) => job));
  expect(most).toBe(2);
});

test('a caller that gets no slot is refused when its time is over', async () => {
  const slots = slotsOn(memory());
  await slots.acquire(requestOf('1'), 0, caller);
  await slots.acquire(requestOf('2'), 0, caller);
  const answers = await Promise.all(['3', '4'].map((job) => slots.acquire(requestOf(job), 20, caller)));
  expect(answers.map(({ held }) => held)).toEqual([false, false]);
});

test('a caller that gives up does not delay those behind it, and holds no slot', async () => {
  const slots = slotsOn(memory());
  await slots.acquire(requestOf('1'), 0, caller);
  await slots.acquire(requestOf('2'), 0, caller);
  let giveUp = none;
  const leaving = callerOf((listener) => {
    giveUp = listener;
  });
  const gone = slots.acquire(requestOf('3'), LONG_MS, leaving);
  const next = slots.acquire(requestOf('4'), LONG_MS, caller);
  await eventually(() => giveUp !== none);
  giveUp();
  await expect(gone).rejects.toThrow(CallerGone);
  await slots.release(requestOf('1'), caller);
  expect(await next).toMatchObject({ held: true });
  await slots.release(requestOf('2'), caller);
  expect(await slots.acquire(requestOf('5'), 0, caller)).toMatchObject({ held: true });
});

test('slots that arrive for a caller that has given up while it waited are free again', async () => {
  const backend = memory();
  const [other, { ledger, ...decider }] = [slotsOn(backend), deciderOn(backend)];
  const [asked, mayAnswer] = [gate(), gate()];
  let isAsking = false;
  const slots = createSlots({
    ...decider,
    ledger: {
      ...ledger,
      async debit(request, how) {
        const answer = await ledger.debit(request, how);
        if (isAsking) {
          asked.open();
          await mayAnswer.passed;
        }
        return answer;
      },
    },
  });
  await other.acquire(requestOf('1'), 0, caller);
  await other.acquire(requestOf('2'), 0, caller);
  let giveUp = none;
  const gone = slots.acquire(
    requestOf('3'),
    LONG_MS,
    callerOf((listener) => {
      giveUp = listener;
    }),
  );
  await eventually(() => giveUp !== none);
  await sleep(0); // it has been refused, and waits
  isAsking = true;
  await other.release(requestOf('1'), caller);
  await asked.passed;
  giveUp();
  await expect(gone).rejects.toThrow(CallerGone);
  expect(await other.acquire(requestOf('4'), 0, caller)).toMatchObject({ held: false });
  mayAnswer.open();
  await eventually(async () => (await other.acquire(requestOf('4'), 0, caller)).held);
});

test('a caller of one instance gets the slot that another instance releases in Redis', async () => {
  const redis = await startRedis();
  const backends = await Promise.all([1, 2].map(async () => new RedisBackend(await openReady(redis), Date.now)));
  const [one, other] = backends.map((backend) => slotsOn(backend));
  if (!one || !other) throw new Error('there are two');
  await one.acquire(requestOf('1'), 0, caller);
  await one.acquire(requestOf('2'), 0, caller);
  const waits = other.acquire(requestOf('3'), LONG_MS, caller);
  await one.release(requestOf('2'), caller);
  expect(await waits).toMatchObject({ held: true });
  await Promise.all(backends.map((backend) => backend.close()));
  await redis.stop();
});

describe('over gRPC', () => {
  const wire = (job: string, key = 'queue', hits = 1) => ({
    domain: 'demo',
    descriptors: [{ entries: entriesOf(key, job), limit: null, hits_addend: null, is_negative_hits: false }],
    hits_addend: hits,
  });

  async function withClient(use: (call: <R>(name: string, request: object) => Promise<R>) => Promise<void>) {
    const server = await startServer({
      others: [hostHolds(async () => createHoldsService(...servicesOf(deciderOn(memory()))))],
    });
    const client = new Client(server.target, credentials.createInsecure());
    const call = <R>(name: string, request: object): Promise<R> =>
      new Promise((resolve, reject) => {
        const method = holdsService[name] as unknown as MethodDefinition<object, R>; // by the file's own types
        const done = (error: ServiceError | null, reply?: R) => (reply === undefined ? reject(error) : resolve(reply));
        client.makeUnaryRequest(method.path, method.requestSerialize, method.responseDeserialize, request, done);
      });
    await use(call);
    client.close();
    await server.close(0);
  }

  test('a caller acquires, renews and releases slots', () =>
    withClient(async (call) => {
      const held = { held: true, ttl: { seconds: 30, nanos: 0 }, retry_after: null };
      expect(await call('Acquire', { request: wire('1') })).toEqual(held);
      expect(await call('Renew', { request: wire('1') })).toEqual(held);
      expect(await call('Acquire', { request: wire('2') })).toEqual(held);
      expect(await call('Acquire', { request: wire('3') })).toMatchObject({
        held: false,
        retry_after: { seconds: 30, nanos: 0 },
      });
      const waits = call('Acquire', { request: wire('3'), max_delay: { seconds: 60, nanos: 0 } });
      expect(await call('Release', { request: wire('1') })).toEqual({});
      expect(await waits).toEqual(held);
    }));

  test.each([
    ['without a request', 'Acquire', {}, 'request must not be empty'],
    ['for a rule without slots', 'Acquire', { request: wire('1', 'user') }, 'no descriptor meets a limit'],
    ['without an id', 'Release', { request: wire('') }, 'the id must not be empty'],
    [
      'that waits for days',
      'Acquire',
      { request: wire('1'), max_delay: { seconds: 90_000, nanos: 0 } },
      'max_delay must be 0 to 3600 seconds',
    ],
  ])('a call %s is refused as invalid', (_, method, request, details) =>
    withClient(async (call) => {
      await expect(call(method, request)).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
        details: expect.stringContaining(details),
      });
    }),
  );
});

const overridden = (effect: StandingOverride['effect'], key: string) => {
  const overrides = new Overrides(fakeClock(), (unit) => unitMs[unit]);
  const entries = [{ key, value: 'a' }];
  overrides.replace([{ domain: 'demo', entries, effect, untilMs: Number.MAX_SAFE_INTEGER, by: '', reason: '' }]);
  return overrides;
};

test.each([
  [{ kind: 'block' }, [false, false]],
  [{ kind: 'exempt' }, [true, true]],
  [{ kind: 'limit', requestsPerUnit: 1, unit: 'DAY' }, [true, false]],
] as const)('with the override %j two more holders of one slot get %j', async (effect, held) => {
  const decider = deciderOn(memory());
  const before = createSlots(decider);
  const slots = createSlots({ ...decider, overrides: overridden(effect, 'tenant') });
  const take = async (job: string, by: Slots) => (await by.acquire(requestOf(job, ['tenant']), 0, caller)).held;
  expect(await take('1', before)).toBe(true);
  expect([await take('2', slots), await take('3', slots)]).toEqual(held);
  expect(await take('4', before)).toBe(false);
  await slots.release(requestOf('1', ['tenant']), caller); // what is held is given back whatever the override says
  expect(await take('4', before)).toBe(true);
});

test('a holder that is exempt has the time of its rule, within which clients renew', async () => {
  const decider = deciderOn(memory());
  const { ttlMs } = await createSlots(decider).acquire(requestOf('1', ['tenant']), 0, caller);
  const slots = createSlots({ ...decider, overrides: overridden({ kind: 'exempt' }, 'tenant') });
  expect(ttlMs).toBeGreaterThan(0);
  expect(await slots.acquire(requestOf('2', ['tenant']), 0, caller)).toEqual({ held: true, ttlMs, retryAfterMs: 0 });
});

test('a limit of an operator counts each slot once, however often it is renewed for the time of its rule', async () => {
  const decider = deciderOn(memory());
  const { ttlMs } = await createSlots(decider).acquire(requestOf('1', ['tenant']), 0, caller);
  const overrides = overridden({ kind: 'limit', requestsPerUnit: 2, unit: 'DAY' }, 'tenant');
  const slots = createSlots({ ...decider, overrides });
  const take = (job: string, hits: 'asked' | 'renewed') => slots.acquire(requestOf(job, ['tenant']), 0, caller, hits);
  const held = { held: true, ttlMs, retryAfterMs: 0 };
  expect(await take('2', 'asked')).toEqual(held);
  for (let times = 0; times < 3; times++) expect(await take('2', 'renewed')).toEqual(held);
  expect(await take('3', 'asked')).toEqual(held);
  expect(await take('4', 'asked')).toMatchObject({ held: false });
  expect(await take('3', 'renewed')).toEqual(held);
  const blocked = createSlots({ ...decider, overrides: overridden({ kind: 'block' }, 'tenant') });
  expect(await blocked.acquire(requestOf('3', ['tenant']), 0, caller, 'renewed')).toMatchObject({ held: false });
});

test('a slot that a proxy holds is given back under an override, too', async () => {
  const decider = deciderOn(memory());
  const blocked = { ...decider, overrides: overridden({ kind: 'block' }, 'tenant') };
  const ask = async (by: ServiceDecider, job: string, hits: number) =>
    (await decide(requestOf(job, ['tenant'], hits), by, Number.POSITIVE_INFINITY)).overallCode;
  expect(await ask(decider, '1', 1)).toBe('OK');
  expect(await ask(blocked, '2', 1)).toBe('OVER_LIMIT');
  expect(await ask(blocked, '1', -1)).toBe('OK');
  expect(await ask(decider, '2', 1)).toBe('OK');
});

test('a release frees a slot without an id, and gives no hit of an operator’s limit back', async () => {
  const decider = deciderOn(memory());
  const limited = { ...decider, overrides: overridden({ kind: 'limit', requestsPerUnit: 1, unit: 'DAY' }, 'room') };
  const ask = async (by: ServiceDecider, hits: number) => {
    const descriptors = [{ entries: [{ key: 'room', value: 'a' }], requestLimit: undefined, hits }];
    return (await decide({ domain: 'demo', descriptors }, by, Number.POSITIVE_INFINITY)).overallCode;
  };
  expect([await ask(decider, 1), await ask(decider, 1)]).toEqual(['OK', 'OVER_LIMIT']);
  expect([await ask(limited, 1), await ask(limited, -2), await ask(limited, 1)]).toEqual(['OK', 'OK', 'OVER_LIMIT']);
  expect(await ask(decider, 1)).toBe('OK');
});

test('a caller that waits gets the slot that new rules have', async () => {
  let current = rules;
  const slots = createSlots({ ...deciderOn(memory()), rules: () => current });
  await slots.acquire(requestOf('1', ['tenant']), 0, caller);
  const waiting = slots.acquire(requestOf('2', ['tenant']), LONG_MS, caller);
  current = rulesFrom(`
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - {key: job, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 10s}}
`);
  expect(await waiting).toMatchObject({ held: true });
});
