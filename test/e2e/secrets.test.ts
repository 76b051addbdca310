import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '../helpers/grpc-client.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

/** Does not occur in any other text. */
const PASSWORD = 'hunter2-of-redis';
const TOKEN = 'hunter2-of-admins';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
`;

let folder: string;
let redis: Redis;
let stops: (() => unknown)[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'secrets-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis({ args: ['--requirepass', PASSWORD] });
});
beforeEach(() => {
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
});
afterAll(async () => {
  await redis.stop();
});

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  const common = { ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'trace', REDIS_STARTUP_MAX_ELAPSED_TIME: '0' };
  const weir = await startWeir({ ...common, ...env }, { args: ['--rules', folder] });
  stops.push(weir.stop);
  return weir;
}

/** All texts of a service: its output, its pages, and the errors of calls, once it has told the state of its store. */
async function saidBy(weir: Weir, state: string): Promise<string> {
  const health = async () => (await fetch(`http://127.0.0.1:${weir.httpPort}/healthcheck?verbose`)).text();
  await weir.waitFor(async (printed) => printed.includes(state) || (await health()).includes(state));
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  stops.push(client.close);
  const answer = await client.ask().then(JSON.stringify, String);
  const urls = [
    ...['/', '/healthcheck?verbose', '/json'].map((path) => `http://127.0.0.1:${weir.httpPort}${path}`),
    ...['/', '/stats', '/rlconfig', '/metrics', '/debug/pprof/', '/debug/pprof/profile?seconds=1'].map(
      (path) => `http://127.0.0.1:${weir.debugPort}${path}`,
    ),
  ];
  const pages = await Promise.all(
    urls.map(async (url) => {
      const page = await fetch(url, { headers: { authorization: 'Bearer wrong' } });
      return [url, page.status, JSON.stringify([...page.headers]), await page.text()].join('\n');
    }),
  );
  await weir.stop();
  return [answer, ...pages, weir.output()].join('\n');
}

test.each([
  ['takes the password', PASSWORD, '"overall_code":1'],
  ['does not take it', `${PASSWORD}-wrong`, 'WRONGPASS'],
])('the output of a service whose Redis %s contains no secret', async (_what, password, expected) => {
  const weir = await service({ REDIS_URL: `redis://:${password}@127.0.0.1:${redis.port}` });
  const said = await saidBy(weir, password === PASSWORD ? 'store: up' : 'WRONGPASS');
  expect(said).toContain(expected);
  expect(said).not.toContain('hunter2');
});

test('the output contains no secret with REDIS_AUTH and a Redis that is down', async () => {
  const said = await saidBy(await service({ REDIS_URL: 'redis://127.0.0.1:1', REDIS_AUTH: PASSWORD }), 'ECONNREFUSED');
  expect(said).toContain('ECONNREFUSED');
  expect(said).not.toContain('hunter2');
});
