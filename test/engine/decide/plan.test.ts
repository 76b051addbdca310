import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { requestDebits } from '../../../src/engine/decide/plan.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const slots = (count: number): string => `rate_limit: {algorithm: in_flight, requests_per_unit: ${count}, ttl: 30s}`;
const reserve = (hits: number): string => `rate_limit: {unit: day, requests_per_unit: ${hits}, reserve: {ttl: 30s}}`;
const held = (key: string, limit: string): string =>
  `- {key: ${key}, descriptors: [{key: id, not_counted: hold, ${limit}}]}`;
const rules = rulesFrom(`
domain: demo
descriptors:
  ${held('narrow', `quota_mode: true, ${slots(1)}`)}
  ${held('wide', `quota_mode: true, ${slots(2)}`)}
  ${held('plain', slots(10))}
  ${held('reserved', `quota_mode: true, ${reserve(1)}`)}
  - {key: counted, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - key: shared
    rate_limit: {unit: second, requests_per_unit: 10, share: {by: tenant}}
    descriptors: [{key: tenant, share: {weight: 1, ceiling: 2}}]
  - {key: open, rate_limit: {unit: day, requests_per_unit: 1}}
`);
const required = rulesFrom(`
domain: demo
require: {keys: [tenant], otherwise: refuse}
descriptors:
  - {key: open, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 1}}
`);

/** A decider with new counters in memory; `atomic` is what its store decides in one step. */
function newDecider(atomic: 'request' | 'counter' = 'request', of = rules): ServiceDecider {
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 100 }));
  return {
    ...deciderOf(of),
    storeBudget: () => 60_000,
    ledger: {
      debit: (request, how) => ledger.debit(request, how),
      refund: (receipt) => ledger.refund(receipt),
      atomic,
    },
  };
}

const requestOf = (keys: readonly string[], id?: string) => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({
    entries: [{ key, value: 'a' }, ...(id === undefined ? [] : [{ key: 'id', value: id }])],
    ...{ requestLimit: undefined, hits: 1 },
  })),
});
const caller = callerOf();

describe.each(['request', 'counter'] as const)('if each %s is one step', (atomic) => {
  test('quotas refuse slots only together', async () => {
    const { acquire } = createSlots(newDecider(atomic));
    const take = async (id: string) => (await acquire(requestOf(['narrow', 'wide'], id), 0, caller)).held;
    expect([await take('1'), await take('2'), await take('3')]).toEqual([true, true, false]);
  });

  test('slots that a request has taken are free again if its quotas refuse it', async () => {
    const decider = newDecider(atomic);
    const { acquire } = createSlots(decider);
    const take = async (id: string) => (await acquire(requestOf(['plain', 'narrow'], id), 0, caller)).held;
    expect([await take('1'), await take('2')]).toEqual([true, false]);
    const peek = {
      domain: 'demo',
      descriptors: requestOf(['plain'], '3').descriptors.map((one) => ({ ...one, hits: 0 })),
    };
    expect(await decide(peek, decider, 1_000)).toMatchObject({ verdicts: [{ decision: { hitsBefore: 1 } }] });
  });
});

test("a quota with room lets Kuadrant's filter reserve, although another one is used up", async () => {
  const decider = newDecider();
  const kuadrant = createKuadrantLimits(decider, createReservations(decider));
  const request = { domain: 'demo', descriptors: requestOf(['reserved', 'counted']).descriptors };
  expect(await kuadrant.reserve(request, caller)).toBeDefined();
  expect(await kuadrant.reserve(request, caller)).toBeDefined();
  expect(await kuadrant.reserve(requestOf(['reserved']), caller)).toBeUndefined();
});

test("a report of Kuadrant's filter counts for the child of a shared limit", async () => {
  const decider = newDecider();
  const kuadrant = createKuadrantLimits(decider, createReservations(decider));
  const entries = ['shared', 'tenant'].map((key) => ({ key, value: 'a' }));
  const request = { domain: 'demo', descriptors: [{ entries, requestLimit: undefined, hits: 1 }] };
  await kuadrant.report(request, caller);
  await kuadrant.report(request, caller);
  expect(await decide(request, decider, 1_000)).toMatchObject({
    overallCode: 'OVER_LIMIT',
    verdicts: [{ decision: { share: { reason: 'ceiling' } } }],
  });
});

test('a report of a request that lacks keys leaves the limits that it would have had to pass', async () => {
  const decider = newDecider('request', required);
  const kuadrant = createKuadrantLimits(decider, createReservations(decider));
  await kuadrant.report(requestOf(['other', 'open']), caller);
  expect(await decide(requestOf(['open', 'tenant']), decider, 1_000)).toMatchObject({ overallCode: 'OK' });
});

test('no quota lets a request pass that lacks keys, even if every rule is a quota', async () => {
  const decider = { ...newDecider('request', required), quotaMode: true };
  expect(await decide(requestOf(['open', 'other']), decider, 1_000)).toMatchObject({ overallCode: 'OVER_LIMIT' });
});

test('the status of a response is not bounded as hits are', () => {
  const few = rulesFrom(`
domain: demo
descriptors:
  ${held('few', 'rate_limit: {algorithm: in_flight, ttl: 30s, adapt: {min: 1, max: 2}}')}
`);
  const [descriptor] = requestOf(['few'], '1').descriptors;
  const request = { domain: 'demo', descriptors: descriptor ? [{ ...descriptor, hits: -503 }] : [] };
  expect(requestDebits(request, newDecider('request', few))).toMatchObject([
    { kind: 'give_back', hits: 1, status: 503 },
  ]);
});
