import { parseList } from 'structured-headers';
import type { Client } from '../../client/src/index.ts';
import { freePort, start } from '../helpers/process.ts';
import { closeAll, closeLater, openClient, RULES, type Service, startService } from './service.ts';

let service: Service;
let client: Client;
beforeAll(async () => {
  service = await startService(RULES);
  client = await openClient({ target: service.grpc });
  apps = await startApps(service.grpc, frameworks);
});
afterAll(closeAll);

/** Starts apps in one process with the built package. @returns  their origins by name */
async function startApps(target: string, names: readonly string[], onError = 'allow'): Promise<Map<string, string>> {
  const args = ['--import', 'tsx', 'test/client/apps/start.ts', target, onError, ...names];
  const running = await start(process.execPath, args, { name: names.join(' ') });
  closeLater(() => running.stop());
  const opened = () => Array.from(running.output().matchAll(/(\S+) listening on (\d+)/g));
  await running.waitFor(() => opened().length === names.length);
  return new Map(opened().map(([, name = '', port]) => [name, `http://127.0.0.1:${port}`]));
}

async function startExpress(target: string, onError?: string): Promise<string> {
  return (await startApps(target, ['express'], onError)).get('express') ?? '';
}

const remainingOf = async (user: string) => (await client.limit('demo', { user }, { hits: 0 })).remaining;

const frameworks = ['express', 'fastify', 'hono', 'koa', 'nestjs-express', 'nestjs-fastify'];
let apps: Map<string, string>;

describe.each(frameworks)('the middleware for %s', (name) => {
  const get = (headers: Readonly<Record<string, string>>, path = '/') => fetch(`${apps.get(name)}${path}`, { headers });

  test('adds limit headers, and refuses with a problem document', async () => {
    const headers = { 'x-user': `${name}-1`, 'x-cost': '3' };
    const passed = await get(headers);
    expect([passed.status, await passed.text()]).toEqual([200, 'hello']);
    expect(parseList(passed.headers.get('ratelimit-policy') ?? '')).toEqual([
      [
        'per-user',
        new Map([
          ['q', 5],
          ['w', 86_400],
        ]),
      ],
    ]);
    expect(parseList(passed.headers.get('ratelimit') ?? '')).toEqual([
      [
        'per-user',
        new Map([
          ['r', 2],
          ['t', expect.any(Number)],
        ]),
      ],
    ]);
    expect(passed.headers.get('x-ratelimit-limit')).toBe('5');
    expect(passed.headers.get('x-ratelimit-remaining')).toBe('2');
    expect(passed.headers.get('retry-after')).toBeNull();

    const refused = await get(headers);
    expect(refused.status).toBe(429);
    expect(refused.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      'violated-policies': ['per-user'],
    });
  });

  test('answers with the body, the content type and the headers of the rule that refuses', async () => {
    const refused = await get({ 'x-user': 'told' });
    expect([refused.status, await refused.text()]).toEqual([429, 'slow down, per-user']);
    expect(refused.headers.get('content-type')).toMatch(/^text\/plain/);
    expect(refused.headers.get('x-plan')).toBe('free');
  });

  test('does not limit skipped requests', async () => {
    const headers = { 'x-user': `${name}-2`, 'x-cost': '6' };
    expect((await get(headers, '/health')).status).toBe(200);
    expect((await get(headers)).status).toBe(429);
  });

  test('lets a handler answer refused requests', async () => {
    const headers = { 'x-user': `${name}-4`, 'x-cost': '5' };
    expect(await (await get(headers, '/own')).text()).toBe('hello');
    const refused = await get(headers, '/own');
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain('refused by the app');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('counts by the address that the trusted proxy reports', async () => {
    const from = (addresses: string) => get({ 'x-forwarded-for': addresses, 'x-cost': '5' });
    const address = `203.0.113.${frameworks.indexOf(name)}`;
    expect((await from(`1.1.1.1, ${address}`)).status).toBe(200);
    expect((await from(`2.2.2.2, ${address}`)).status).toBe(429);
    expect(await remainingOf(address)).toBe(0);
  });

  test('counts the actual cost of a request after the response', async () => {
    const user = `${name}-3`;
    await get({ 'x-user': user, 'x-cost': '1', 'x-total': '4' });
    while ((await remainingOf(user)) === 4); // it is counted later than the response is read
    expect(await remainingOf(user)).toBe(1);
    await get({ 'x-user': user, 'x-cost': '1', 'x-total': '0' });
    while ((await remainingOf(user)) === 0);
    expect(await remainingOf(user)).toBe(1);
  });
});

test('in NestJS, the options of a handler precede those of its controller', async () => {
  const user = 'nest-costly';
  const costs: (number | undefined)[] = [];
  for (const path of ['search', 'status', 'free']) {
    const before = await remainingOf(user);
    expect((await fetch(`${apps.get('nestjs-fastify')}/costly/${path}`, { headers: { 'x-user': user } })).status).toBe(
      200,
    );
    costs.push((before ?? 0) - ((await remainingOf(user)) ?? 0));
  }
  expect(costs).toEqual([3, 1, 0]);
});

test('a middleware sends the headers of the service instead of its own', async () => {
  const sending = await startService(RULES, { LIMIT_IETF_HEADERS: 'true' });
  const app = await startExpress(sending.grpc);
  const { headers } = await fetch(app, { headers: { 'x-user': 'service' } });
  expect(headers.get('ratelimit-policy')).toBe('"per-user";q=5;w=86400');
  expect(headers.get('ratelimit')).toMatch(/^"per-user";r=4;t=\d+$/);
  expect(headers.get('x-ratelimit-remaining')).toBe('4');
});

test('a request that the client denies since the service does not answer gets 503', async () => {
  const app = await startExpress(`127.0.0.1:${await freePort()}`, 'deny');
  const refused = await fetch(app);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await refused.json()).toMatchObject({
    status: 503,
    type: expect.stringContaining('temporary-reduced-capacity'),
  });
});
