import '../../helpers/realm.ts';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { holdsService } from '../../../src/parts/holds/methods.ts';
import { hostHolds } from '../../../src/parts/holds/offer.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createHoldsService } from '../../../src/parts/holds/service.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { hostKuadrant } from '../../../src/parts/kuadrant/offer.ts';
import { createKuadrantService, kuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: slots
    descriptors: [{key: id, not_counted: hold, rate_limit: {algorithm: in_flight, ttl: 1m, requests_per_unit: 9}}]
  - key: hits
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: {unit: minute, requests_per_unit: 9, reserve: {ttl: 1m}}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 9}}
`);

const DEADLINE_MS = 30_000;

const wire = (...keys: readonly string[]) => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({
    entries: [{ key, value: 'a' }, ...(key === 'plain' ? [] : [{ key: 'id', value: '1' }])],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  })),
  hits_addend: 1,
});

const BUDGET_MS = 12_345;

const holds = { service: holdsService, request: (key: string) => ({ request: wire(key) }) };
const kuadrant = { service: kuadrantService, request: (...keys: string[]) => wire(...keys) };

test.each([
  ['Acquire', holds.service, holds.request('slots'), 1],
  ['Renew', holds.service, holds.request('slots'), 1],
  ['Release', holds.service, holds.request('slots'), 1],
  ['Reserve', holds.service, holds.request('hits'), 1],
  ['Commit', holds.service, holds.request('hits'), 1],
  ['CheckRateLimit', kuadrant.service, kuadrant.request('hits'), 1],
  ['Report', kuadrant.service, kuadrant.request('plain'), 1],
  ['Reserve', kuadrant.service, { ...kuadrant.request('hits', 'plain'), amount: 1 }, 1],
  ['Commit', kuadrant.service, { ...kuadrant.request('hits', 'plain'), actual_amount: 1, reservation_id: '1' }, 2],
])("%s waits for the store within its caller's deadline", async (name, service, request, calls) => {
  const budgets: number[] = [];
  const waits: number[] = [];
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 100 }));
  const decider: ServiceDecider = {
    ...deciderOf(rules),
    storeBudget: (callerTimeoutMs) => {
      budgets.push(callerTimeoutMs);
      return BUDGET_MS;
    },
    ledger: {
      debit: (debits, how) => {
        waits.push(how.timeoutMs);
        return ledger.debit(debits, how);
      },
      refund: (receipt) => ledger.refund(receipt),
      atomic: 'request',
    },
  };
  const reservations = createReservations(decider);
  const server = await startServer({
    others: [
      hostHolds(async () => createHoldsService(createSlots(decider), reservations)),
      hostKuadrant(async () => createKuadrantService(createKuadrantLimits(decider, reservations), extrasOf())),
    ],
  });
  const client = new Client(server.target, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = service[name] as unknown as MethodDefinition<object, object>; // by the file's own types
  await new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, reply?: object) => (error ? reject(error) : resolve(reply));
    const deadline = Date.now() + DEADLINE_MS;
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, done);
  });
  expect(waits).toEqual(new Array(calls).fill(BUDGET_MS));
  expect(budgets.filter((ms) => !(ms > 0 && ms <= DEADLINE_MS))).toEqual([]);
  client.close();
  await server.close(0);
});
