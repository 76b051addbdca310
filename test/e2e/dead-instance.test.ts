import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEnvoy } from '../helpers/envoy.ts';
import { startPrintedEnvoy } from '../helpers/printed-envoy.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }
`;

/** An Envoy that fails open, and calls two instances in turn. */
interface Proxy {
  /** The status of a request of a user who is over the limit: 429, unless Envoy got no decision. */
  status(): Promise<number>;
  admin(path: string): Promise<string>;
  stop(): Promise<unknown>;
}

let redis: Redis;
let rules: string;
let weirs: Weir[];
let proxy: Proxy | undefined;

beforeAll(async () => {
  redis = await startRedis();
  rules = join(await mkdtemp(join(tmpdir(), 'dead-')), 'rules.yaml');
  await writeFile(rules, RULES);
});
afterAll(() => redis.stop());
beforeEach(async () => {
  const start = () => startWeir({ REDIS_URL: redis.url }, { args: ['--rules', rules] });
  weirs = await Promise.all([start(), start()]);
});
afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
  for (const weir of weirs) await weir.stop('SIGKILL');
});

/** Adds a second endpoint to the cluster `weir`, as operators would write it. */
const withSecond =
  (port: string) =>
  (config: string): string =>
    config.replace(
      /^( +- )(endpoint: { address: { socket_address: { address: 127\.0\.0\.1, port_value: )8081( } } })$/m,
      `$&\n$1$2${port}$3`,
    );

async function fromEnvoyYaml(one: Weir, other: Weir): Promise<Proxy> {
  const envoy = await startEnvoy(one.grpcPort, withSecond(`=${other.grpcPort}`));
  const status = async () => (await envoy.get('10000', '/', 'ann')).status;
  return { status, admin: envoy.admin, stop: envoy.stop };
}

async function fromPrinted(one: Weir, other: Weir): Promise<Proxy> {
  const envoy = await startPrintedEnvoy({
    rules,
    target: `127.0.0.1:${one.grpcPort}`,
    upstreamPort: one.httpPort,
    edit: (config) =>
      config.replace(
        new RegExp(`lb_endpoints: \\[({.*port_value: )${one.grpcPort}( .*})\\]`),
        `lb_endpoints: [$1${one.grpcPort}$2, $1${other.grpcPort}$2]`,
      ),
  });
  const read = (port: number, path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
  return {
    status: async () => (await read(envoy.port, '/', { 'x-user': 'ann' })).status,
    admin: async (path) => (await read(envoy.adminPort, path)).text(),
    stop: envoy.stop,
  };
}

async function statOf({ admin }: Proxy, name: string): Promise<number> {
  const text = await admin(`/stats?filter=^${name}$`);
  return Number(/: (\d+)/.exec(text)?.[1] ?? 0);
}

async function statuses({ status }: Proxy, count: number): Promise<readonly number[]> {
  const found: number[] = [];
  for (let at = 0; at < count; at++) found.push(await status());
  return found;
}

test.each([
  ['envoy.yaml', fromEnvoyYaml],
  ['what weir envoy prints', fromPrinted],
])('with %s, every request is decided while one of two instances is dead', async (_, start) => {
  const [one, other] = weirs as [Weir, Weir]; // started before
  const envoy = await start(one, other);
  proxy = envoy;
  await statuses(envoy, 1); // the one that passes
  expect(new Set(await statuses(envoy, 10))).toEqual(new Set([429]));
  expect(await statOf(envoy, 'cluster.weir.membership_total')).toBe(2);
  process.kill(other.pid, 'SIGKILL');
  await other.exited;
  await until('no request is undecided', async () => (await statuses(envoy, 10)).every((status) => status === 429));
  const undecided = await statOf(envoy, 'cluster.upstream.ratelimit.error');
  expect(new Set(await statuses(envoy, 200))).toEqual(new Set([429]));
  expect(await statOf(envoy, 'cluster.upstream.ratelimit.error')).toBe(undecided);
});
