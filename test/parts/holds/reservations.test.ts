import '../../helpers/realm.ts';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createEstimates } from '../../../src/engine/ledger/estimates.ts';
import { holdsService } from '../../../src/parts/holds/methods.ts';
import { hostHolds } from '../../../src/parts/holds/offer.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createHoldsService } from '../../../src/parts/holds/service.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: llm
descriptors:
  - key: tenant
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 1000, reserve: {ttl: 30s, on_overrun: clip}}}
  - key: model
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 500, reserve: {ttl: 10s, estimate: 200}}}
  - key: running
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 10s}}
`);

const clock = fakeClock();

function deciderOn(atomic: Backend['atomic'] = 'request'): ServiceDecider {
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 100 }));
  return {
    ...deciderOf(rules),
    storeBudget: () => 5_000,
    estimates: createEstimates(),
    ledger: {
      debit: (request, how) => ledger.debit(request, how),
      refund: (receipt) => ledger.refund(receipt),
      atomic,
    },
  };
}

const wire = (keys: readonly string[], id: string, hits: number) => ({
  domain: 'llm',
  descriptors: keys.map((key) => ({
    entries: [
      { key, value: 'a' },
      { key: 'id', value: id },
    ],
    limit: null,
    hits_addend: { value: hits },
    is_negative_hits: false,
  })),
  hits_addend: 0,
});

/** Calls of `weir.v1.Holds`. */
async function withClient(
  use: (call: <R>(name: string, keys: readonly string[], id: string, hits: number) => Promise<R>) => Promise<void>,
  atomic: Backend['atomic'] = 'request',
) {
  const decider = deciderOn(atomic);
  const server = await startServer({
    others: [hostHolds(async () => createHoldsService(createSlots(decider), createReservations(decider)))],
  });
  const client = new Client(server.target, credentials.createInsecure());
  await use(
    <R>(name: string, keys: readonly string[], id: string, hits: number): Promise<R> =>
      new Promise((resolve, reject) => {
        const method = holdsService[name] as unknown as MethodDefinition<object, R>; // by the file's own types
        const done = (error: ServiceError | null, reply?: R) => (reply === undefined ? reject(error) : resolve(reply));
        const request = { request: wire(keys, id, hits) };
        client.makeUnaryRequest(method.path, method.requestSerialize, method.responseDeserialize, request, done);
      }),
  );
  client.close();
  await server.close(0);
}

const [COMMITTED, LATE, UNKNOWN, REPEATED] = [1, 2, 3, 4];
const seconds = (count: number) => ({ seconds: count, nanos: 0 });

test('a caller reserves hits and commits its usage, both of which may be repeated', () =>
  withClient(async (call) => {
    const reserve = (id: string, hits: number) => call('Reserve', ['tenant'], id, hits);
    const commit = (id: string, hits: number) => call('Commit', ['tenant'], id, hits);
    expect(await reserve('1', 600)).toEqual({ reserved: true, hits: 600, ttl: seconds(30), retry_after: null });
    expect(await reserve('2', 600)).toEqual({
      ...{ reserved: false, hits: 0, ttl: seconds(0), retry_after: seconds(30) },
    });
    expect(await reserve('3', 1_001)).toMatchObject({ reserved: false });
    expect(await commit('1', 700)).toEqual({ outcome: COMMITTED, charged: 600, overrun: 100 });
    expect(await commit('1', 700)).toMatchObject({ outcome: REPEATED, charged: 0 });
    expect(await commit('9', 50)).toMatchObject({ outcome: UNKNOWN, charged: 50 });
    expect(await reserve('4', 350)).toMatchObject({ reserved: true });
    clock.advance(30_000);
    expect(await commit('4', 10)).toMatchObject({ outcome: LATE, charged: 10 });
    expect(await reserve('5', 340)).toMatchObject({ reserved: true });
    expect(await commit('5', 0)).toMatchObject({ outcome: COMMITTED, charged: 0 });
    expect(await reserve('6', 340)).toMatchObject({ reserved: true });
  }));

test.each(['request', 'counter'] as const)(
  'hits are reserved for all limits of a request or none, if each %s is one step',
  (atomic) =>
    withClient(async (call) => {
      const reserve = (keys: readonly string[], id: string, hits: number) => call('Reserve', keys, id, hits);
      expect(await reserve(['tenant', 'model'], '1', 400)).toMatchObject({ reserved: true, ttl: seconds(10) });
      expect(await reserve(['tenant', 'model'], '2', 300)).toMatchObject({ reserved: false });
      expect(await reserve(['tenant'], '3', 600)).toMatchObject({ reserved: true });
    }, atomic),
);

test.each(['request', 'counter'] as const)(
  'hits that a refused request has used anyway are charged, if each %s is one step',
  (atomic) =>
    withClient(async (call) => {
      const both = ['tenant', 'model'];
      expect(await call('Reserve', both, '1', 600)).toMatchObject({ reserved: false });
      expect(await call('Commit', both, '1', 300)).toMatchObject({ outcome: UNKNOWN, charged: 300 });
      expect(await call('Reserve', both, '2', 100)).toMatchObject({ reserved: true });
      expect(await call('Reserve', both, '2', 600)).toMatchObject({ reserved: false });
      expect(await call('Commit', both, '2', 100)).toMatchObject({ charged: 100 });
    }, atomic),
);

test('a rule may require more to be reserved than the caller asks for', () =>
  withClient(async (call) => {
    expect(await call('Reserve', ['model'], '1', 5)).toMatchObject({ reserved: true, hits: 200 });
    expect(await call('Reserve', ['model'], '2', 300)).toMatchObject({ reserved: true, hits: 300 });
    expect(await call('Reserve', ['model'], '3', 5)).toMatchObject({ reserved: false });
  }));

test.each([
  ['Reserve', 'running', 'a', 1, 'no descriptor meets a limit with reserve'],
  ['Acquire', 'tenant', 'a', 1, 'no descriptor meets a limit with algorithm: in_flight'],
  ['Commit', 'tenant', '', 1, 'the id must not be empty'],
  ['Reserve', 'tenant', 'a', 0, 'hits must be at least 1, got 0'],
])('%s for the rule of %s with id "%s" and %i hits is refused as invalid', (method, key, id, hits, details) =>
  withClient(async (call) => {
    await expect(call(method, [key], id, hits)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining(details),
    });
  }),
);
