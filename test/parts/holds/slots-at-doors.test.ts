import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { findMetered } from '../../../src/engine/decide/metered.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { match } from '../../../src/engine/rules/match/match.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const inFlight = 'algorithm: in_flight, ttl: 30s';
const rules = rulesFrom(`
domain: demo
descriptors:
  - key: fixed
    descriptors: [{key: id, not_counted: hold, rate_limit: {${inFlight}, requests_per_unit: 2}}]
  - key: adaptive
    descriptors: [{key: id, not_counted: hold, rate_limit: {${inFlight}, adapt: {min: 2, max: 10}}}]
  - key: large
    descriptors: [{key: id, not_counted: hold, rate_limit: {${inFlight}, adapt: {min: 150, max: 200}}}]
  - key: reserved
    descriptors: [{key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 2, reserve: {ttl: 30s}}}]
`);

/** A decider with new counters in memory. */
function newDecider(): ServiceDecider {
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 100 }));
  return {
    ...deciderOf(rules),
    storeBudget: () => 60_000,
    ledger: {
      debit: (request, how) => ledger.debit(request, how),
      refund: (receipt) => ledger.refund(receipt),
      atomic: 'request',
    },
  };
}

const requestOf = (key: string, id?: string, hits = 1) => {
  const entries = [{ key, value: 'a' }, ...(id === undefined ? [] : [{ key: 'id', value: id }])];
  return { domain: 'demo', descriptors: [{ entries, requestLimit: undefined, hits }] };
};

function matchOf(key: string) {
  const [descriptor] = requestOf(key, '1').descriptors;
  return match(rules, 'demo', descriptor ?? { entries: [], requestLimit: undefined });
}

describe.each(['fixed', 'adaptive'])('a limit on requests in flight that is %s', (key) => {
  test('gives no slot to a report of Kuadrant, since nobody would release it', async () => {
    const decider = newDecider();
    const kuadrant = createKuadrantLimits(decider, createReservations(decider));
    for (let times = 0; times < 3; times++) await kuadrant.report(requestOf(key), callerOf());
    expect(await decide(requestOf(key, '1'), decider, 1_000)).toMatchObject({ overallCode: 'OK' });
  });

  test('is announced as concurrent requests, without a window or a time until there are more', async () => {
    const answer = await decide(requestOf(key, '1'), newDecider(), 1_000);
    const { headers } = extrasOf({ ietf: true, soft: '' });
    expect(headers(answer)).toEqual([
      { key: 'RateLimit-Policy', value: expect.stringMatching(/^"demo\.\w+\.id";q=\d+;qu="concurrent-requests"$/) },
      { key: 'RateLimit', value: expect.stringMatching(/^"demo\.\w+\.id";r=\d+$/) },
    ]);
  });

  test('has no usage', () => {
    const found = matchOf(key);
    expect(found).toMatchObject({ limits: [{}] });
    expect(found.kind === 'limited' && findMetered({ metersUsage: true }, found)).toBeUndefined();
  });
});

test.each(['fixed', 'adaptive', 'reserved'])('a limit in the place of a limit that is %s has no usage', (key) => {
  const overrides = new Overrides(fakeClock(), (unit) => unitMs[unit]);
  const entries = [{ key, value: 'a' }];
  const effect = { kind: 'limit', requestsPerUnit: 5, unit: 'DAY' } as const;
  overrides.replace([{ domain: 'demo', entries, effect, untilMs: Number.MAX_SAFE_INTEGER, by: '', reason: '' }]);
  const found = overrides.apply(matchOf(key), 'demo', entries);
  expect(found).toMatchObject({ kind: 'limited', overridden: true });
  expect(found.kind === 'limited' && findMetered({ metersUsage: true }, found)).toBeUndefined();
});

test.each(['ShouldRateLimit', 'weir.v1.Holds'])(
  'a release of 100 hits or more by %s states the status of a response',
  async (door) => {
    const decider = newDecider();
    const slots = createSlots(decider);
    const acquire = async (id: string, hits: number) =>
      (await slots.acquire(requestOf('large', id, hits), 0, callerOf())).held;
    expect(await acquire('1', 120)).toBe(true);
    await slots.release(requestOf('large', '1', 10), callerOf());
    expect(await acquire('2', 41)).toBe(false); // 110 are still held
    if (door === 'weir.v1.Holds') await slots.release(requestOf('large', '1', 200), callerOf());
    else await decide(requestOf('large', '1', -200), decider, 1_000);
    expect(await acquire('2', 150)).toBe(true); // it has freed all slots of its id
  },
);
