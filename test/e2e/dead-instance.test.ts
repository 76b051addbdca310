import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { driveHttp } from '../../proof/bench/generator/drive-http.ts';
import { startEnvoy } from '../helpers/envoy.ts';
import { startPrintedEnvoy } from '../helpers/printed-envoy.ts';
import { freePort } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }
`;

/** An Envoy that fails open, and calls instances in turn. */
interface Proxy {
  /** The status of a request of a user who is over the limit: 429, unless Envoy got no decision. */
  status(): Promise<number>;
  admin(path: string): Promise<string>;
  stop(): Promise<unknown>;
}

let redis: Redis;
let rules: string;
let weirs: readonly Weir[] = [];
let proxy: Proxy | undefined;

beforeAll(async () => {
  redis = await startRedis();
  rules = join(await mkdtemp(join(tmpdir(), 'dead-')), 'rules.yaml');
  await writeFile(rules, RULES);
});
afterAll(() => redis.stop());
afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
  for (const weir of weirs) await weir.stop('SIGKILL');
});

/**
 * Repeats what precedes and follows the port of the first instance for each of the others; checks may take longer, since
 * the machine may be busy.
 */
const withOthers =
  (endpoint: RegExp, ports: readonly string[], separator: string) =>
  (config: string): string =>
    config
      .replace(/(?<= timeout: )1s(?=,?\s+unhealthy)/, '20s')
      .replace(endpoint, (first, before, after) =>
        [first, ...ports.map((port) => `${before}${port}${after}`)].join(separator),
      );

/** The endpoint of Weir in envoy.yaml. */
const ENDPOINT = /^( +- endpoint: { address: { socket_address: { address: 127\.0\.0\.1, port_value: )8081( } } })$/m;

async function fromEnvoyYaml(first: Weir, others: readonly Weir[]): Promise<Proxy> {
  const ports = others.map(({ grpcPort }) => `=${grpcPort}`);
  const envoy = await startEnvoy(first.grpcPort, withOthers(ENDPOINT, ports, '\n'));
  const status = async () => (await envoy.get('10000', '/', 'ann')).status;
  return { status, admin: envoy.admin, stop: envoy.stop };
}

async function fromPrinted(first: Weir, others: readonly Weir[]): Promise<Proxy> {
  const ports = others.map(({ grpcPort }) => String(grpcPort));
  const endpoint = new RegExp(`(?<=lb_endpoints: \\[)({.*port_value: )${first.grpcPort}( .*})(?=\\])`);
  const envoy = await startPrintedEnvoy({
    rules,
    target: `127.0.0.1:${first.grpcPort}`,
    upstreamPort: first.httpPort,
    edit: withOthers(endpoint, ports, ', '),
  });
  const read = (port: number, path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
  return {
    status: async () => (await read(envoy.port, '/', { 'x-user': 'ann' })).status,
    admin: async (path) => (await read(envoy.adminPort, path)).text(),
    stop: envoy.stop,
  };
}

async function statOf({ admin }: Pick<Proxy, 'admin'>, name: string): Promise<number> {
  const text = await admin(`/stats?filter=^${name}$`);
  return Number(/: (\d+)/.exec(text)?.[1] ?? 0);
}

async function statuses({ status }: Proxy, count: number): Promise<readonly number[]> {
  const found: number[] = [];
  for (let at = 0; at < count; at++) found.push(await status());
  return found;
}

test.each([
  ['one of two instances is dead, with envoy.yaml', fromEnvoyYaml, 2],
  ['two of three instances are dead, with envoy.yaml', fromEnvoyYaml, 3],
  ['one of two instances is dead, with what weir envoy prints', fromPrinted, 2],
  ['two of three instances are dead, with what weir envoy prints', fromPrinted, 3],
])('every request is decided while %s', async (_, start, count) => {
  weirs = await Promise.all(
    Array.from({ length: count }, () => startWeir({ REDIS_URL: redis.url }, { args: ['--rules', rules] })),
  );
  const [first, ...others] = weirs as [Weir, ...Weir[]]; // at least two
  const envoy = await start(first, others);
  proxy = envoy;
  await statuses(envoy, 1); // passes, once
  expect(new Set(await statuses(envoy, 10))).toEqual(new Set([429]));
  expect(await statOf(envoy, 'cluster.weir.membership_total')).toBe(count);
  for (const { pid, exited } of others) {
    process.kill(pid, 'SIGKILL');
    await exited;
  }
  await until('no request is undecided', async () => (await statuses(envoy, 10)).every((status) => status === 429));
  const undecided = await statOf(envoy, 'cluster.upstream.ratelimit.error');
  expect(new Set(await statuses(envoy, 200))).toEqual(new Set([429]));
  expect(await statOf(envoy, 'cluster.upstream.ratelimit.error')).toBe(undecided);
});

/** envoy.yaml with the retries of the page about reliability in place of health checks. */
function withRetries(config: string, page: string): string {
  const [service = ''] = /^ {2}rate_limit_service:\n(?: {4}.*\n)+/m.exec(page) ?? [];
  const [breakers = ''] = /circuit_breakers: .*max_retries.*/.exec(page) ?? [];
  const patient = service.replace('max_interval: 0.25s', 'max_interval: 60s'); // the machine may be busy
  return config
    .replace(/ +health_checks:\n[\s\S]*?grpc_health_check: .*\n/, '')
    .replace(/circuit_breakers: .*/, breakers)
    .replace(
      / +rate_limit_service: &weir\n.*\n.*\n/,
      `${patient.replace(':', ': &weir').replaceAll(/^/gm, ' '.repeat(20)).trimEnd()}\n`,
    );
}

test('with the retries of the page, requests that meet a dead instance at once are decided by the other', async () => {
  const weir = await startWeir({ REDIS_URL: redis.url }, { args: ['--rules', rules] });
  weirs = [weir];
  const dead = await freePort();
  const page = await readFile('docs/reliability.md', 'utf8');
  const envoy = await startEnvoy(weir.grpcPort, (config) =>
    withOthers(ENDPOINT, [`=${dead}`], '\n')(withRetries(config, page)),
  );
  proxy = { ...envoy, status: async () => (await envoy.get('10000', '/', 'bob')).status };
  const pace = { kind: 'closed', callsInFlight: 1, end: { calls: 1_000 } } as const;
  const { answers } = await driveHttp({ port: envoy.portOf('10000'), connections: 100, pace, users: ['bob'] });
  expect(answers).toEqual({ ADMITTED: 1, REFUSED: 999, UNLIMITED: 0, FAILED: 0 });
  expect(await statOf(proxy, 'cluster.weir.upstream_rq_retry')).toBeGreaterThan(100);
});
