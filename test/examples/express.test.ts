import { closeAll, closeLater, startService } from '../client/service.ts';
import { freePort } from '../helpers/process.ts';
import { openExample } from './example.ts';

afterEach(closeAll);

/** Starts the example, with windows that do not end during the test. */
async function startShop(): Promise<{ get(path: string, key?: string): Promise<Response> }> {
  const example = await openExample('express');
  const rules = example.rules.replace('unit: second', 'unit: day').replace('unit: minute', 'unit: day');
  const service = await startService(rules);
  const port = await freePort();
  const env = { PORT: String(port), WEIR: service.grpc };
  const shop = await example.run('shop.mjs', { env, ready: 'shop is ready' });
  closeLater(() => shop.stop());
  return {
    get: (path, key) =>
      fetch(`http://127.0.0.1:${port}${path}`, { headers: key === undefined ? {} : { 'x-api-key': key } }),
  };
}

test('the shop of the example refuses the sixth request of an address, but none with its own key', async () => {
  const { get } = await startShop();
  const codes: number[] = [];
  for (let at = 0; at < 6; at++) codes.push((await get('/items')).status);
  expect(codes).toEqual([200, 200, 200, 200, 200, 429]);
  const refused = await get('/items');
  expect(refused.headers.get('ratelimit-policy')).toBe('"per-address";q=5;w=86400');
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await refused.json()).toMatchObject({ status: 429, 'violated-policies': ['per-address'] });
  expect((await get('/items', 'k1')).status).toBe(200);
  expect((await get('/health')).status).toBe(200);
});

test('a report of the example costs as much as ten other requests', async () => {
  const { get } = await startShop();
  const codes: number[] = [];
  for (const path of ['/report', '/report', '/items']) codes.push((await get(path, 'k2')).status);
  expect(codes).toEqual([200, 200, 429]);
});
