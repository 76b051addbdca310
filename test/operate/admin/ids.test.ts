import '../../helpers/realm.ts';
import { renderCounters } from '../../../src/parts/counters/render.ts';
import { paintFor } from '../../../src/parts/lab/commands/paint.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';

const IN_FLIGHT = `
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
const TRACED = `
domain: traced
descriptors:
  - key: user
    descriptors:
      - key: request_id
        not_counted: trace
        value_to_metric: true
        rate_limit: {unit: year, requests_per_unit: 2, alignment: first_hit}
  - key: tenant
    detailed_metric: true
    descriptors:
      - key: slot
        not_counted: hold
        descriptors:
          - key: request_id
            not_counted: trace
            detailed_metric: true
            rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 1h}
`;
const RESERVED = `
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
  service = await startAdministered([IN_FLIGHT, TRACED, RESERVED], { EXPLAIN_SAMPLE: '10' });
});
afterAll(() => service.stop());

const pair = (key: string, value: string) => ({ key, value });

const call: Administered['call'] = (...asked) => service.call(...asked);

async function block(domain: string, descriptor: readonly object[]): Promise<void> {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain, descriptor, effect: 'block', until, reason: 'abuse' };
  expect(await call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 200 });
}

describe('slots in flight', () => {
  const entries = (tenant: string, id: string) => [pair('tenant', tenant), pair('request_id', id), pair('kind', 'k')];

  const request = (descriptor: readonly object[], isRelease = false) => ({
    domain: 'demo',
    descriptors: [{ entries: descriptor, ...(isRelease && { hits_addend: 1, is_negative_hits: true }) }],
  });

  /** Sends a request to /json. @returns the HTTP status */
  const ask = (descriptor: readonly object[], isRelease = false): Promise<number> =>
    service.ask(request(descriptor, isRelease));

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
      descriptors: [{ limits: [{ limit: '2 in flight for up to 3600 s', code: 'OVER_LIMIT' }, { code: 'OK' }] }],
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
    expect(await ask(entries('blocked', '1'))).toBe(200);
    await block('demo', [pair('tenant', 'blocked'), pair('kind', 'k')]);
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
});

describe('ids of requests', () => {
  const entriesOf = (text: string) =>
    text.split(',').map((one) => ({ key: one.split('=')[0], value: one.split('=')[1] ?? '' }));

  const ask = (descriptor: string): Promise<number> =>
    service.ask({ domain: 'traced', descriptors: [{ entries: entriesOf(descriptor) }] });

  test('requests with ids share a counter, and the refused one is found by its id', async () => {
    const answers = [];
    for (const id of ['r1', 'r2', 'r3']) answers.push(await ask(`user=alice,request_id=${id}`));
    expect(answers).toEqual([200, 200, 429]);
    const found = await call('GET', '/api/v1/refusals?request=r3');
    expect(found.body.refusals).toMatchObject([
      {
        requestId: 'r3',
        descriptors: [{ entries: [{ key: 'user', value: 'alice' }], code: 'OVER_LIMIT', arithmetic: '2 + 1 = 3 > 2' }],
      },
    ]);
    expect((await call('GET', '/api/v1/refusals?request=r1')).body.refusals).toEqual([]);
  });

  test('counters, top keys and statistics have no ids', async () => {
    for (const id of ['t1', 't2', 't3']) await ask(`user=bob,request_id=${id}`);
    for (const slot of ['s1', 's2']) await ask(`tenant=acme,slot=${slot},request_id=${slot}`);
    const shown = await call('GET', '/api/v1/counters?domain=traced&descriptor=user%3Dbob');
    expect(shown.body.counters).toMatchObject([{ rule: 'traced.user.request_id', used: 3 }]);
    const listed = await call('GET', '/api/v1/counters?rule=traced.tenant.slot.request_id');
    expect(listed.body.counters).toMatchObject([{ entries: [{ key: 'tenant', value: 'acme' }], used: 1 }]);
    const top = await call('GET', '/api/v1/top?rule=traced.user.request_id');
    expect(top.body.rules[0].keys).toContainEqual(expect.objectContaining({ descriptor: 'user=bob', hits: 3 }));
    const stats = await (await fetch(`http://127.0.0.1:${service.weir.debugPort}/stats`)).text();
    expect(stats).toContain('traced.user.request_id.total_hits');
    expect(stats).toContain('traced.tenant_acme.slot.request_id.total_hits: 2');
    expect(stats).not.toMatch(/t1|s1/);
  });

  test('a refusal with both a slot id and a trace id is found by its trace id', async () => {
    await ask('tenant=other,slot=a,request_id=first');
    expect(await ask('tenant=other,slot=b,request_id=second')).toBe(429);
    expect((await call('GET', '/api/v1/refusals?request=second')).body.refusals).toHaveLength(1);
    expect((await call('GET', '/api/v1/refusals?request=b')).body.refusals).toEqual([]);
  });

  test('an override of a descriptor without ids applies to all requests', async () => {
    await block('traced', entriesOf('user=blocked'));
    expect(await ask('user=blocked,request_id=b1')).toBe(429);
  });
});

describe('reserved hits', () => {
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
  const commit = (tenant: string, id: string, hits: number, key = 'tenant') =>
    send(entries(key, tenant, id, true), hits);

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
    expect(await countersOf('tenant=a,request_id=9')).toMatchObject([
      { used: 100, remaining: 900, onHold: 0, open: 0 },
    ]);
    expect([await reserve('a', '2', 600), await reserve('b', '2', 600)]).toEqual([200, 200]);
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
    await block('llm', [pair('tenant', 'blocked')]);
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
    const labels = '{domain="llm",rule="named_m.request_id",algorithm="fixed_window"}';
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
    expect(page).toContain('reserve: { ttl: 3600000ms, on_overrun: debt, on_lapse: charge, estimate: p95 }');
    expect(page).not.toContain('used');
  });
});
