import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';

const RULES = `
domain: demo
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

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES, { EXPLAIN_SAMPLE: '10' });
});
afterAll(() => service.stop());

const entriesOf = (text: string) =>
  text.split(',').map((one) => ({ key: one.split('=')[0], value: one.split('=')[1] ?? '' }));

const ask = (descriptor: string): Promise<number> =>
  service.ask({ domain: 'demo', descriptors: [{ entries: entriesOf(descriptor) }] });

const call: Administered['call'] = (...asked) => service.call(...asked);

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
  const shown = await call('GET', '/api/v1/counters?domain=demo&descriptor=user%3Dbob');
  expect(shown.body.counters).toMatchObject([{ rule: 'demo.user.request_id', used: 3 }]);
  const listed = await call('GET', '/api/v1/counters?rule=demo.tenant.slot.request_id');
  expect(listed.body.counters).toMatchObject([{ entries: [{ key: 'tenant', value: 'acme' }], used: 1 }]);
  const top = await call('GET', '/api/v1/top?rule=demo.user.request_id');
  expect(top.body.rules[0].keys).toContainEqual(expect.objectContaining({ descriptor: 'user=bob', hits: 3 }));
  const stats = await (await fetch(`http://127.0.0.1:${service.weir.debugPort}/stats`)).text();
  expect(stats).toContain('demo.user.request_id.total_hits');
  expect(stats).toContain('demo.tenant_acme.slot.request_id.total_hits: 2');
  expect(stats).not.toMatch(/t1|s1/);
});

test('a refusal with both a slot id and a trace id is found by its trace id', async () => {
  await ask('tenant=other,slot=a,request_id=first');
  expect(await ask('tenant=other,slot=b,request_id=second')).toBe(429);
  expect((await call('GET', '/api/v1/refusals?request=second')).body.refusals).toHaveLength(1);
  expect((await call('GET', '/api/v1/refusals?request=b')).body.refusals).toEqual([]);
});

test('an override of a descriptor without ids applies to all requests', async () => {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain: 'demo', descriptor: entriesOf('user=blocked'), effect: 'block', until, reason: 'abuse' };
  expect(await call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 200 });
  expect(await ask('user=blocked,request_id=b1')).toBe(429);
});
