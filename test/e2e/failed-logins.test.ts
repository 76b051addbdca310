import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PageEnvoy, startPageEnvoy } from '../helpers/envoy-page.ts';
import { startPrintedEnvoy } from '../helpers/printed-envoy.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { Upstream } from '../helpers/upstream.ts';
import { asLocal, startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/protect-a-login.md', import.meta.url));

/** Answers with the status that the request asks for. */
const upstream = new Upstream(({ headers }, answer) => {
  answer.writeHead(Number(headers['x-answer-status'] ?? 200)).end();
});

let folder: string;
let virtualHost: string;
let redis: Redis;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'logins-'));
  const page = await readFile(PAGE, 'utf8');
  await writeFile(join(folder, 'page.yaml'), /```yaml\n# logins.yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? '');
  virtualHost = /```yaml\n# envoy: a virtual host\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  [redis] = await Promise.all([startRedis(), upstream.listen()]);
});
afterAll(async () => {
  upstream.close();
  await Promise.all([redis.stop(), rm(folder, { recursive: true })]);
});

interface Stack extends PageEnvoy {
  readonly weir: Weir;
}

/** The configuration of a page, with the virtual host of this one; the client's address is in x-forwarded-for. */
function withVirtualHost(config: string): string {
  const hosts = /( *)virtual_hosts:\n[\s\S]*?(?=\n {2}clusters:)/;
  expect(config).toMatch(hosts);
  return config
    .replace(
      hosts,
      (_, indent: string) => `${indent}virtual_hosts:\n${virtualHost.replaceAll(/^(?=.)/gm, `${indent}  `)}`,
    )
    .replace(/( *)stat_prefix: .*\n/, '$&$1use_remote_address: true\n$1xff_num_trusted_hops: 1\n')
    .replace('domain: graphql', 'domain: logins');
}

async function startStack(env: Readonly<Record<string, string>>): Promise<Stack> {
  const weir = await startWeir({ ...env, STORE_TIMEOUT: '5s' }, { args: ['--rules', join(folder, 'page.yaml')] });
  const ports = { weirPort: weir.grpcPort, upstreamPort: upstream.port };
  const stack = { weir, ...(await startPageEnvoy('response-cost.md', ports, withVirtualHost)) };
  await stack.envoy.waitFor(async () => (await login(stack, '192.0.2.254', 200)) === 200);
  return stack;
}

async function login({ port }: Stack, address: string, status: number, account = `of ${address}`): Promise<number> {
  const headers = { 'x-forwarded-for': address, 'x-answer-status': String(status), 'x-account': account };
  const answer = await fetch(`http://127.0.0.1:${port}/login`, { method: 'POST', headers });
  await answer.text();
  return answer.status;
}

/** The failures of a network that have been counted. */
async function failures({ weir }: Stack, network: string) {
  const descriptor = encodeURIComponent(`generic_key=login,masked_remote_address=${network}`);
  const answer = await fetch(
    `http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=logins&descriptor=${descriptor}`,
    { headers: asLocal(weir) },
  );
  const { counters } = JSON.parse(await answer.text());
  const [{ used, blockedMs }] = counters;
  return { used, isBlocked: blockedMs !== undefined };
}

/** Fails once, and waits until that is counted: Envoy reports it after the client has the response. */
async function fail(stack: Stack, address: string, network: string): Promise<void> {
  const { used } = await failures(stack, network);
  expect(await login(stack, address, 401)).toBe(401);
  await stack.envoy.waitFor(async () => (await failures(stack, network)).used === used + 1);
}

const stores = { memory: () => ({}), Redis: () => ({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }) };

describe.each(Object.entries(stores))('counted in %s', (_, env) => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack(env());
  });
  afterAll(() => Promise.all([stack.envoy.stop('SIGKILL'), stack.weir.stop('SIGKILL')]));

  test('a thousand successful logins cost nothing, and the sixth failure is refused', async () => {
    for (let at = 0; at < 1_000; at += 20) {
      const some = Array.from({ length: 20 }, (__, one) => login(stack, '192.0.2.1', 200, `account ${at + one}`));
      expect(new Set(await Promise.all(some))).toEqual(new Set([200]));
    }
    expect(await failures(stack, '192.0.2.1/32')).toEqual({ used: 0, isBlocked: false });
    for (let failed = 0; failed < 5; failed++) await fail(stack, '192.0.2.1', '192.0.2.1/32');
    expect(await failures(stack, '192.0.2.1/32')).toEqual({ used: 5, isBlocked: true });
    expect(await login(stack, '192.0.2.1', 401)).toBe(429);
    expect(await login(stack, '192.0.2.1', 200)).toBe(429); // the right password helps no more
    expect(await login(stack, '192.0.2.2', 401)).toBe(401);
    expect((await failures(stack, '192.0.2.1/32')).used).toBe(5); // what was refused has the status 429
  });

  test('addresses of one IPv6 network are one client', async () => {
    const network = '2001:db8:1:2::/64';
    for (let failed = 1; failed <= 5; failed++) await fail(stack, `2001:db8:1:2::${failed}`, network);
    expect(await login(stack, '2001:db8:1:2:aaaa::6', 200)).toBe(429);
    expect(await login(stack, '2001:db8:1:3::6', 200)).toBe(200);
  });

  test('an account has failures of its own, from all networks', async () => {
    for (let failed = 0; failed < 20; failed++)
      expect(await login(stack, `198.51.100.${failed}`, 401, 'ann')).toBe(401);
    await stack.envoy.waitFor(async () => (await login(stack, '203.0.113.1', 200, 'ann')) === 429);
    expect(await login(stack, '203.0.113.1', 200, 'bob')).toBe(200);
  });
});

test('weir envoy prints a configuration that reports the status', async () => {
  const rules = join(folder, 'users.yaml');
  const limit = '{ unit: year, requests_per_unit: 1 }';
  await writeFile(rules, `domain: d\ndescriptors: [{ key: user, count_when: 401, rate_limit: ${limit} }]\n`);
  const weir = await startWeir({ STORE_TIMEOUT: '5s' }, { args: ['--rules', rules] });
  const target = `127.0.0.1:${weir.grpcPort}`;
  const envoy = await startPrintedEnvoy({ rules, target, upstreamPort: upstream.port });
  const ask = async (status: number): Promise<number> => {
    const headers = { 'x-user': 'ann', 'x-answer-status': String(status) };
    return (await fetch(`http://127.0.0.1:${envoy.port}/`, { headers })).status;
  };
  await eventually(async () => (await ask(200)) === 200);
  for (let at = 0; at < 5; at++) expect(await ask(200)).toBe(200);
  expect(await ask(401)).toBe(401);
  await eventually(async () => (await ask(200)) === 429);
  await Promise.all([envoy.stop('SIGKILL'), weir.stop('SIGKILL')]);
});
