import '../../helpers/realm.ts';
import { paintFor } from '../../../src/cli/commands/paint.ts';
import { renderCounters } from '../../../src/cli/commands/render.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';

const RULES = `
domain: llm
spend: all_or_nothing
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: {unit: year, requests_per_unit: 1000, reserve: {ttl: 1h}}
        descriptors: [{key: used, not_counted: commit}]
  - key: learned
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: {unit: year, requests_per_unit: 10000, reserve: {ttl: 1h, estimate: p95}}
        descriptors: [{key: used, not_counted: commit}]
  - key: named
    value_to_metric: true
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limits:
          - {unit: day, requests_per_unit: 100, reserve: {ttl: 1h, estimate: 30, on_overrun: clip}}
          - {unit: year, requests_per_unit: 5}
        descriptors: [{key: used, not_counted: commit}]
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES);
});
afterAll(() => service.stop());

const pair = (key: string, value: string) => ({ key, value });
const entries = (key: string, tenant: string, id: string, commits: boolean) => [
  pair(key, tenant),
  pair('request_id', id),
  ...(commits ? [pair('used', 'tokens')] : []),
];
const request = (descriptor: readonly object[], hits: number) => ({
  domain: 'llm',
  descriptors: [{ entries: descriptor, hits_addend: hits }],
});

/** Sends a request to /json. @returns the HTTP status */
const send = (descriptor: readonly object[], hits: number): Promise<number> => service.ask(request(descriptor, hits));
const reserve = (tenant: string, id: string, hits: number, key = 'tenant') =>
  send(entries(key, tenant, id, false), hits);
const commit = (tenant: string, id: string, hits: number, key = 'tenant') => send(entries(key, tenant, id, true), hits);

const call: Administered['call'] = (...asked) => service.call(...asked);
const countersOf = async (descriptor: string) =>
  (await call('GET', `/api/v1/counters?domain=llm&descriptor=${encodeURIComponent(descriptor)}`)).body.counters;
const explain = async (descriptor: readonly object[], hits: number) =>
  (await call('POST', '/api/v1/explain', request(descriptor, hits))).body;

test('a request reserves the hits that it may use, and is charged those that it used', async () => {
  expect([await reserve('a', '1', 600), await reserve('a', '2', 600)]).toEqual([200, 429]);
  expect(await countersOf('tenant=a')).toMatchObject([
    { algorithm: 'fixed_window', limit: '1000 per year, reserved', used: 600, remaining: 400, onHold: 600, open: 1 },
  ]);
  expect(await commit('a', '1', 100)).toBe(200);
  expect(await commit('a', '1', 100)).toBe(200); // repeated
  expect(await countersOf('tenant=a,request_id=9')).toMatchObject([{ used: 100, remaining: 900, onHold: 0, open: 0 }]);
  expect([await reserve('a', '2', 600), await reserve('b', '2', 600)]).toEqual([200, 200]);
});

test('a commit of 0 hits frees the reservation, and a commit of an unknown request is charged', async () => {
  await reserve('zero', '1', 900);
  await commit('zero', '1', 0);
  expect(await countersOf('tenant=zero')).toMatchObject([{ used: 0, onHold: 0 }]);
  await commit('zero', 'never seen', 250);
  expect(await countersOf('tenant=zero')).toMatchObject([{ used: 250 }]);
});

test('explain shows the hits on hold and the effect of a commit, and changes nothing', async () => {
  await reserve('explained', '1', 600);
  const limitOf = async (commits: boolean, id: string, hits: number) =>
    (await explain(entries('tenant', 'explained', id, commits), hits)).descriptors[0].limits[0];
  expect(await limitOf(false, '2', 500)).toMatchObject({
    code: 'OVER_LIMIT',
    arithmetic: '0 + 600 on hold + 500 = 1100 > 1000',
    reservation: { event: 'refused' },
  });
  expect(await limitOf(false, '2', 300)).toMatchObject({
    code: 'OK',
    reservation: { event: 'reserved', reserved: 300 },
  });
  expect(await limitOf(true, '1', 700)).toMatchObject({
    code: 'OK',
    arithmetic: 'used 700 of 600 reserved, charged 700',
    reservation: { event: 'committed', reserved: 600, charged: 700, overrun: 100 },
    after: { used: 700, onHold: 0 },
  });
  expect(await countersOf('tenant=explained')).toMatchObject([{ used: 600, onHold: 600 }]);
});

test('weir get prints how many of the used hits are on hold', async () => {
  await reserve('shown', '1', 600);
  await commit('shown', '2', 100);
  const { body } = await call('GET', '/api/v1/counters?domain=llm&descriptor=tenant%3Dshown');

  expect(renderCounters(body, paintFor(false, undefined))).toMatch(
    /1000 per year, reserved\n +700 used, 600 of it on hold for 1 request, 300 left/,
  );
});

test('an estimate of p95 reserves the 95th percentile of previous usage, but at most half of the limit', async () => {
  const reserved = async (tenant: string) =>
    (await explain(entries('learned', tenant, 'next', false), 10)).descriptors[0].limits[0].reservation.reserved;
  expect(await reserved('one')).toBe(10); // no history yet
  for (let at = 1; at <= 20; at++) await commit('one', String(at), at, 'learned');
  expect(await reserved('one')).toBe(19);
  expect(await reserved('other')).toBe(10);
  for (let at = 1; at <= 20; at++) await commit('large', String(at), 20_000, 'learned');
  await call('POST', '/api/v1/counters/reset', {
    ...{ domain: 'llm', reason: 'test', descriptor: [pair('learned', 'large')] },
  });
  expect(await reserved('large')).toBe(5_000);
});

test('a commit charges only the limits of a node that reserve, and a fixed estimate is a minimum', async () => {
  expect(await reserve('x', '1', 1, 'named')).toBe(200);
  expect(await countersOf('named=x')).toMatchObject([{ used: 30, onHold: 30 }, { used: 1 }]);
  await commit('x', '1', 45, 'named');
  expect(await countersOf('named=x')).toMatchObject([{ used: 30, onHold: 0 }, { used: 1 }]); // clipped
});

test("a block refuses a tenant's requests, but hits that they have used are still charged", async () => {
  expect(await reserve('blocked', '1', 100)).toBe(200);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const block = { domain: 'llm', descriptor: [pair('tenant', 'blocked')], effect: 'block', until, reason: 'abuse' };
  expect(await call('PUT', '/api/v1/overrides', block)).toMatchObject({ status: 200 });
  expect(await reserve('blocked', '2', 100)).toBe(429);
  expect(await commit('blocked', '1', 70)).toBe(200);
  const lift = { domain: 'llm', descriptor: [pair('tenant', 'blocked')], reason: 'over' };
  expect(await call('DELETE', '/api/v1/overrides', lift)).toMatchObject({ status: 200 });
  expect(await countersOf('tenant=blocked')).toMatchObject([{ used: 70 }]);
});

test('metrics count reserved, committed, overrun, late and unknown hits, and each request once', async () => {
  await reserve('m', '1', 1, 'named');
  await commit('m', '1', 50, 'named');
  await commit('m', '1', 50, 'named');
  await commit('m', '2', 5, 'named');
  const page = await (await fetch(`http://127.0.0.1:${service.weir.debugPort}/metrics`)).text();
  const labels = '{domain="llm",rule="named_m.request_id",algorithm="reservation"}';
  for (const [name, value] of Object.entries({
    weir_reservations_reserved_hits_total: 30,
    weir_reservations_committed_hits_total: 35,
    weir_reservations_overrun_hits_total: 20,
    weir_reservations_late_total: 0,
    weir_reservations_unknown_total: 1,
    weir_reservations_repeated_total: 1,
    weir_reservations_held_hits: 30,
  }))
    expect(page).toContain(`${name}${labels} ${value}\n`);
});

test('rules are listed as written, without separate rules for commits', async () => {
  const page = await (await fetch(`http://127.0.0.1:${service.weir.debugPort}/rlconfig`)).text();
  expect(page).toContain('reserve: { ttl: 3600000ms, on_overrun: debt, estimate: p95 }');
  expect(page).not.toContain('used');
});
