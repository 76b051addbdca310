import '../helpers/realm.ts';
import { type Administered, startAdministered } from '../helpers/administered.ts';
import { runCommand } from '../helpers/command.ts';

const RULES = `
domain: demo
descriptors:
  - {key: soft, rate_limit: {unit: day, requests_per_unit: 5, soft: 3}}
  - {key: bucket, rate_limit: {unit: day, requests_per_unit: 6, algorithm: token_bucket, burst: 20}}
  - {key: money, unit_cost: 0.01 USD, rate_limit: {unit: year, budget: 0.50 USD}}
  - key: team
    rate_limit: {unit: minute, requests_per_unit: 10, share: {by: tenant}}
    descriptors: [{key: tenant, value: acme, share: {reserve: 2, weight: 3, ceiling: 5}}]
  - key: flight
    descriptors: [{key: id, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 1h}}]
  - {key: friends, rate_limit: {algorithm: allocation, requests_per_unit: 5}}
  - {key: free, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES, { AUDIT_LOG: 'stderr', EXPLAIN_SAMPLE: '100', DECISION_LOG: 'all' });
});
afterAll(() => service.stop());

const run = async (...args: readonly string[]): Promise<string> => {
  const target = ['--target', `localhost:${service.weir.debugPort}`];
  const { stdout, stderr } = await runCommand([...args, ...target], { env: { WEIR_TOKEN: 'token' } });
  return stdout + stderr;
};

/** Sends a request, `user=a` or `user=a,id=1`. */
async function send(descriptor: string, hits = 1) {
  const entries = descriptor.split(',').map((entry) => {
    const [key = '', value = ''] = entry.split('=');
    return { key, value };
  });
  const body = JSON.stringify({ domain: 'demo', hits_addend: hits, descriptors: [{ entries }] });
  const response = await fetch(`http://127.0.0.1:${service.weir.httpPort}/json`, { method: 'POST', body });
  const answer = (await response.json()) as { readonly statuses: readonly { readonly durationUntilReset: string }[] }; // of Weir
  return { status: response.status, answer };
}

test.each([
  ['soft=a', 9, '9 > 5 + 3 soft'],
  ['bucket=a', 21, '21 > burst of 20'],
  ['money=a', 51, '0.51 USD > 0.50 USD'],
])('explanations and refusals of %s show what the limit admits', async (descriptor, hits, compared) => {
  expect(await send(descriptor, hits)).toMatchObject({ status: 429 });
  expect(await run('refusals', '--rule', `demo.${descriptor.split('=')[0]}`)).toContain(compared);
  expect(await run('explain', 'demo', descriptor.replace('=a', '=b'), '--hits', String(hits))).toContain(compared);
});

test('a shared limit per minute is described per minute', async () => {
  for (let calls = 0; calls < 6; calls++) await send('team=a,tenant=acme');
  const ceiling = 'this tenant has reached its ceiling of 5 per minute';
  expect(await run('explain', 'demo', 'team=a,tenant=acme')).toContain(ceiling);
  expect(await run('refusals')).toContain(ceiling);
  expect(await run('get', 'demo', 'team=a,tenant=acme')).toContain('5 used in this minute, 3 borrowed');
});

test('a refusal has the amounts of a budget in every list', async () => {
  await send('money=c', 40);
  expect(await send('money=c', 20)).toMatchObject({ status: 429 });
  expect(await run('ask', 'demo', 'money=c')).toContain('0.50 USD per YEAR, 0.00 USD remaining');
  expect(await run('top', '--rule', 'demo.money')).toMatch(/^ +61 {2}money=c$/m);
  expect(await run('top', '--by', 'refusals', '--rule', 'demo.money')).toMatch(/^ +\d+ {2}money=c$/m);
  expect(service.weir.output()).toMatch(/"limit":"0.50 USD per year","code":"OVER_LIMIT","remaining":"0.00 USD"/);
  const { body } = await service.call('GET', '/api/v1/refusals?rule=demo.money&count=1');
  expect(body.refusals[0].descriptors[0]).toMatchObject({ currency: 'USD' });
  await run('grant', 'demo', 'money=c', '0.10 USD', '--reason', 'a test');
  await run('reset', 'demo', 'money=c', '--reason', 'a test');
  const audit = await run('audit');
  expect(audit).toMatch(/grant demo money=c 0\.10 USD: 0\.\d\d USD used → 0\.\d\d USD used/);
  expect(audit).toMatch(/reset demo money=c: 0\.\d\d USD used → 0\.00 USD used/);
});

test('slots and allocations have no window, and an allocation no reset', async () => {
  for (const id of ['1', '2', '3']) await send(`flight=a,id=${id}`);
  expect(await run('ask', 'demo', 'flight=a,id=3')).toMatch(/limit of 2, 0 remaining, resets in (1 h|59 min)/);
  expect(await send('friends=a', 5)).toMatchObject({ status: 200 });
  expect(await run('ask', 'demo', 'friends=a')).toContain('limit of 5, 0 remaining; rule');
  expect(await run('explain', 'demo', 'friends=a')).toContain('never passes by waiting');
  expect(await run('get', 'demo', 'friends=a')).toMatch(/5 used, 0 left$/m);
});

test('lists name clients without the ids of requests, which can be explained as they are listed', async () => {
  const request = { domain: 'demo', descriptors: [{ entries: [{ key: 'flight', value: 'a' }] }] };
  const explain = async (query: string) => (await service.call('POST', `/api/v1/explain${query}`, request)).body;
  expect(await explain('')).toMatchObject({ status: 200, descriptors: [{ outcome: 'no_rule' }] });
  expect(await explain('?counted=true')).toMatchObject({
    status: 429,
    descriptors: [{ rule: 'demo.flight.id', limits: [{ arithmetic: '2 + 1 = 3 > 2' }] }],
  });
});

test('every door names an override that blocks, and its end', async () => {
  await run('override', 'set', 'demo', 'free=a', 'block', '--for', '2h', '--reason', 'a test');
  const { status, answer } = await send('free=a');
  expect(status).toBe(429);
  expect(Number.parseInt(answer.statuses[0]?.durationUntilReset ?? '', 10)).toBeGreaterThan(7_000);
  expect(await run('explain', 'demo', 'free=a')).toContain('blocked by an override');
  expect(await run('get', 'demo', 'free=a')).toContain('demo.free: override, blocked by an override');
  expect(await run('refusals', '--rule', 'demo.free')).toContain('blocked by an override');
  expect(service.weir.output()).toMatch(/"retry_after_ms":71\d{5},/);
});

test('one hit and several are counted in words', async () => {
  await send('tried=a');
  await send('tried=a');
  expect(await run('top', '--by', 'shadowed', '--rule', 'demo.tried')).toContain(
    'demo.tried  1 hit let pass by shadow or quota mode in the last minute',
  );
});
