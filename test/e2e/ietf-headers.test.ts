import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Item, parseList } from 'structured-headers';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limits:
      - { name: burst, unit: second, requests_per_unit: 3 }
      - { name: daily, unit: day, requests_per_unit: 1000 }
  - key: path
    value: /slow
    rate_limit: { unit: day, requests_per_unit: 1 }
`;

let folder: string;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ietf-'));
  const path = join(folder, 'rules.yaml');
  await writeFile(path, RULES);
  const names = { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_HEADER_STYLE: 'x-ratelimit' };
  weir = await startWeir({ ...names, LIMIT_IETF_HEADERS: 'true' }, { args: ['--rules', path] });
  // without Envoy's own headers, which have the same names
  envoy = await startEnvoy(weir.grpcPort, (config) => config.replaceAll(/^ *enable_x_ratelimit_headers:.*\n/gm, ''));
});
afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
});

const get = (path: string, user?: string): Promise<Response> => envoy.get('10000', path, user);

/** A field of an answer: the parameters of each item, by its name. */
const itemsOf = ({ headers }: Response, field: string): ReadonlyMap<string, Record<string, unknown>> =>
  new Map(
    (parseList(headers.get(field) ?? '') as Item[]) // both fields are lists of items
      .map(([name, parameters]) => [String(name), Object.fromEntries(parameters)]),
  );

test('a client behind Envoy receives all limits of a request that passed, and of one that is refused', async () => {
  const passed = await get('/slow', 'ann');
  expect(passed.status).toBe(200);
  const policies = [
    ['burst', { q: 3, w: 1 }],
    ['daily', { q: 1_000, w: 86_400 }],
    ['demo.path_/slow', { q: 1, w: 86_400 }],
  ];
  expect([...itemsOf(passed, 'RateLimit-Policy')]).toEqual(policies);
  expect([...itemsOf(passed, 'RateLimit')]).toEqual([
    ['burst', { r: 2, t: 1 }],
    ['daily', { r: 999, t: expect.any(Number) }],
    ['demo.path_/slow', { r: 0, t: expect.any(Number) }],
  ]);
  expect(Number(passed.headers.get('x-ratelimit-remaining'))).toBe(0);

  const refused = await get('/slow', 'bob');
  expect(refused.status).toBe(429);
  expect([...itemsOf(refused, 'RateLimit-Policy')]).toEqual(policies);
  const current = itemsOf(refused, 'RateLimit');
  expect(current.get('demo.path_/slow')).toEqual({ r: 0, t: Number(refused.headers.get('x-ratelimit-retry-after')) });
  expect(current.get('daily')).toEqual({ r: 999 });
  const { headers } = refused;
  expect([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')]).toEqual(['1', '0']);
});

test('an answer without a limit has neither field', async () => {
  const { status, headers } = await get('/');
  expect(status).toBe(200);
  expect([...headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
});

test('a client that respects the fields is never refused', async () => {
  const statuses: number[] = [];
  for (let request = 0; request < 10; request++) {
    const answer = await get('/', 'cem');
    statuses.push(answer.status);
    const waitsS = [...itemsOf(answer, 'RateLimit').values()].map(({ r, t }) => (r === 0 ? Number(t) : 0));
    await sleep(Math.max(...waitsS) * 1_000);
  }
  expect(statuses).toEqual(Array(10).fill(200));
});
