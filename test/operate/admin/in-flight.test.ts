import '../../helpers/realm.ts';
import { paintFor } from '../../../src/cli/commands/paint.ts';
import { renderCounters } from '../../../src/cli/commands/render.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';

const RULES = `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        descriptors:
          - {key: kind, rate_limits: [{algorithm: in_flight, requests_per_unit: 2, ttl: 1h}, {unit: year, requests_per_unit: 9}]}
  - key: service
    descriptors:
      - {key: request_id, not_counted: hold, rate_limit: {algorithm: in_flight, ttl: 1h, adapt: {min: 3}}}
  - {key: anyone, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 1h}}
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES);
});
afterAll(() => service.stop());

const pair = (key: string, value: string) => ({ key, value });
const entries = (tenant: string, id: string) => [pair('tenant', tenant), pair('request_id', id), pair('kind', 'k')];

const request = (descriptor: readonly object[], isRelease = false) => ({
  domain: 'demo',
  descriptors: [{ entries: descriptor, ...(isRelease && { hits_addend: 1, is_negative_hits: true }) }],
});

/** Sends a request to /json. @returns the HTTP status */
const ask = (descriptor: readonly object[], isRelease = false): Promise<number> =>
  service.ask(request(descriptor, isRelease));

const call: Administered['call'] = (...asked) => service.call(...asked);

const counters = (descriptor: string) =>
  call('GET', `/api/v1/counters?domain=demo&descriptor=${encodeURIComponent(descriptor)}`);

test('the id is not part of the counter, at any position in the descriptor', async () => {
  expect([await ask(entries('a', '1')), await ask(entries('a', '2')), await ask(entries('a', '3'))]).toEqual([
    200, 200, 429,
  ]);
  expect(await ask(entries('b', '3'))).toBe(200);
  const asked = await Promise.all([counters('tenant=a,request_id=1,kind=k'), counters('tenant=a,kind=k')]);
  for (const { body } of asked)
    expect(body.counters).toMatchObject([
      { algorithm: 'in_flight', used: 2, remaining: 0, oldestMs: expect.any(Number) },
      { algorithm: 'fixed_window', used: 3 },
    ]);
});

test('the listing of counters names the rule of a counter whose key has no id', async () => {
  await ask(entries('listed', '1'));
  const { body } = await call('GET', '/api/v1/counters?rule=demo.tenant.request_id.kind');
  expect(body.counters).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ rule: 'demo.tenant.request_id.kind', algorithm: 'in_flight', used: 1 }),
    ]),
  );
});

test('explain predicts the answer to the next request of an id, and holds no slot', async () => {
  await ask(entries('explained', '1'));
  await ask(entries('explained', '2'));
  const explained = async (id: string) =>
    (await call('POST', '/api/v1/explain', request(entries('explained', id)))).body;
  expect(await explained('3')).toMatchObject({
    status: 429,
    descriptors: [{ limits: [{ limit: '2 in flight for up to 3600000 ms', code: 'OVER_LIMIT' }, { code: 'OK' }] }],
  });
  expect(await explained('2')).toMatchObject({
    descriptors: [{ limits: [{ code: 'OK', arithmetic: '1 + 1 = 2 ≤ 2' }, {}] }],
  });
  expect((await counters('tenant=explained,kind=k')).body.counters[0]).toMatchObject({ used: 2 });
});

test('get and explain show the slots of an adaptive limit, and why they are as many', async () => {
  const own = [pair('service', 'billing'), pair('request_id', '1')];
  expect(await ask(own)).toBe(200);
  const adapted = {
    limit: 3,
    holdMs: 0,
    baselineMs: 0,
    move: 'new',
    why: 'the minimum, as nothing has been measured',
  };
  const { body } = await counters('service=billing');
  expect(body.counters).toMatchObject([{ algorithm: 'in_flight', used: 1, remaining: 2, adapted }]);
  expect(renderCounters(body, paintFor(false, undefined))).toContain(
    '    limit of 3 now: the minimum, as nothing has been measured',
  );
  const explained = await call(
    'POST',
    '/api/v1/explain',
    request([pair('service', 'billing'), pair('request_id', '2')]),
  );
  expect(explained.body.descriptors[0].limits).toMatchObject([
    { before: { used: 1, adapted }, drawing: { kind: 'slots', capacity: 3, ttlMs: 3_600_000 } },
  ]);
});

test('a reset frees all slots, and a grant frees those of the id', async () => {
  for (const id of ['1', '2']) await ask(entries('changed', id));
  const change = { domain: 'demo', reason: 'stuck' };
  await call('POST', '/api/v1/counters/grant', { ...change, descriptor: entries('changed', '1'), hits: 1 });
  expect([await ask(entries('changed', '3')), await ask(entries('changed', '4'))]).toEqual([200, 429]);
  const without = [pair('tenant', 'changed'), pair('kind', 'k')];
  await call('POST', '/api/v1/counters/reset', { ...change, descriptor: without });
  expect([await ask(entries('changed', '4')), await ask(entries('changed', '5'))]).toEqual([200, 200]);
});

test('an override of a descriptor without the id applies to all ids', async () => {
  const descriptor = [pair('tenant', 'blocked'), pair('kind', 'k')];
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain: 'demo', descriptor, effect: 'block', until, reason: 'abuse' };
  expect(await ask(entries('blocked', '1'))).toBe(200);
  expect(await call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 200 });
  expect(await ask(entries('blocked', '2'))).toBe(429);
  expect((await call('POST', '/api/v1/explain', request(entries('blocked', '2')))).body.descriptors).toMatchObject([
    { outcome: 'overridden', override: { effect: 'block' } },
  ]);
});

test('an empty id is equivalent to no id', async () => {
  for (let times = 0; times < 2; times++) expect(await ask(entries('empty', ''))).toBe(200);
  expect(await ask(entries('empty', ''))).toBe(429);
});

test('metrics have the number of held slots by rule', async () => {
  const own = [pair('anyone', 'x')];
  expect([await ask(own), await ask(own), await ask(own, true)]).toEqual([200, 200, 200]);
  const page = await (await fetch(`http://127.0.0.1:${service.weir.debugPort}/metrics`)).text();
  expect(page).toContain('weir_slots_held{domain="demo",rule="anyone",algorithm="in_flight"} 2');
  expect(page).toContain('weir_slots_expired_total{domain="demo",rule="anyone",algorithm="in_flight"} 0');
  expect(page).toMatch(/weir_slots_oldest_seconds\{domain="demo",rule="anyone",algorithm="in_flight"\} \d/);
});
