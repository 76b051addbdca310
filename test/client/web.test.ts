import { type Client, createClient } from '../../client/src/index.ts';
import { rateLimit, type WebLimitOptions } from '../../client/src/web.ts';
import { createEngine } from '../../src/engine/index.ts';
import { fakeClock } from '../helpers/clock.ts';
import { RULES } from './service.ts';

let client: Client;
beforeAll(async () => {
  client = createClient({ engine: await createEngine({ rules: { text: RULES }, clock: fakeClock() }) });
});
afterAll(() => client.close());

const requestOf = (headers: Readonly<Record<string, string>> = {}) => new Request('http://localhost/', { headers });
const limiter = (options: Partial<WebLimitOptions>) =>
  rateLimit({ client, domain: 'demo', key: (_, address) => ({ user: address }), ...options });

test('a standard request passes with headers, and is refused with a response', async () => {
  const limit = limiter({ peer: () => '192.0.2.1', cost: () => 3 });
  const passed = await limit(requestOf());
  expect(passed.response).toBeUndefined();
  expect(passed.headers.get('ratelimit')).toMatch(/^"per-user";r=2;t=\d+$/);
  const { response } = await limit(requestOf());
  expect([response?.status, response?.headers.get('content-type')]).toEqual([429, 'application/problem+json']);
  expect(response?.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await response?.json()).toMatchObject({ status: 429, 'violated-policies': ['per-user'] });
});

test('the final cost of a standard request is counted when it is known', async () => {
  const limit = limiter({ peer: () => '192.0.2.2' });
  const { settle } = await limit(requestOf());
  await settle(() => 4);
  expect((await client.limit('demo', { user: '192.0.2.2' }, { hits: 0 })).remaining).toBe(1);
});

test('the response to a refused request may be replaced, and gets the headers', async () => {
  const onRefused: WebLimitOptions['onRefused'] = ({ decision }, { url }) => Response.json([decision.rule, url]);
  const { response } = await limiter({ peer: () => '192.0.2.3', cost: () => 6, onRefused })(requestOf());
  expect(await response?.json()).toEqual(['demo.user', 'http://localhost/']);
  expect(response?.headers.get('ratelimit-policy')).toBe('"per-user";q=5;w=86400');
});

test('requests are counted by the address that a trusted proxy reports', async () => {
  const limit = limiter({ trustProxy: 1, cost: () => 5 });
  const from = (addresses: string) => limit(requestOf({ 'x-forwarded-for': addresses }));
  expect((await from('1.1.1.1, 192.0.2.4')).response).toBeUndefined();
  expect((await from('2.2.2.2, 192.0.2.4')).response?.status).toBe(429);
});

test('clients without a known address are never counted together', async () => {
  expect(() => rateLimit({ client, domain: 'demo' })).toThrow('expected one of the options peer, trustProxy and key');
  const limit = rateLimit({ client, domain: 'demo', trustProxy: ['loopback'] });
  await expect(limit(requestOf())).rejects.toThrow('the address of the client is unknown');
});
