import '../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startWeir, type Weir } from '../helpers/weir.ts';

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

let folder: string;
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'request-ids-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = { ADMIN_TOKEN: 'token', EXPLAIN_SAMPLE: '10', USE_STATSD: 'false' };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
});
afterAll(async () => {
  await weir.stop();
  rmSync(folder, { recursive: true });
});

const entriesOf = (text: string) =>
  text.split(',').map((one) => ({ key: one.split('=')[0], value: one.split('=')[1] ?? '' }));

const ask = async (descriptor: string): Promise<number> => {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: entriesOf(descriptor) }] });
  return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
};

async function call(method: string, path: string, body?: object) {
  const headers = { authorization: 'Bearer token' };
  const url = `http://127.0.0.1:${weir.debugPort}${path}`;
  const answer = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return { status: answer.status, body: JSON.parse(await answer.text()) };
}

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
  const stats = await (await fetch(`http://127.0.0.1:${weir.debugPort}/stats`)).text();
  expect(stats).toContain('demo.user.request_id.total_hits');
  expect(stats).toContain('demo.tenant_acme.slot.request_id.total_hits: 2');
  expect(stats).not.toMatch(/t1|s1/);
});

test('a refusal that has the id of a slot and one to trace it by is found by the latter', async () => {
  await ask('tenant=other,slot=a,request_id=first');
  expect(await ask('tenant=other,slot=b,request_id=second')).toBe(429);
  expect((await call('GET', '/api/v1/refusals?request=second')).body.refusals).toHaveLength(1);
  expect((await call('GET', '/api/v1/refusals?request=b')).body.refusals).toEqual([]);
});

test('an override of a descriptor without ids holds for all requests', async () => {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain: 'demo', descriptor: entriesOf('user=blocked'), effect: 'block', until, reason: 'abuse' };
  expect(await call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 200 });
  expect(await ask('user=blocked,request_id=b1')).toBe(429);
});
