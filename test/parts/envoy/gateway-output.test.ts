import { mkdtemp, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runEnvoy } from '../../helpers/envoy.ts';
import { freePort, type Running } from '../../helpers/process.ts';
import { envoyWith, type FilterRow, listenerOf } from '../../helpers/recorded-calls.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

/** Names as Envoy Gateway 1.9 writes them: a match has its key as value. */
const ROUTE = 'httproute/default/shop/rule/0/match/0/*';
const matched = (key: string) => ({ descriptor_key: key, descriptor_value: key });
const network = (cidr: string) => {
  const [address_prefix, prefix_len] = cidr.split('/');
  const ranges = [{ address_prefix, prefix_len: Number(prefix_len) }];
  return {
    remote_address_match: {
      ...{ descriptor_key: 'masked_remote_address', descriptor_value: cidr },
      address_matcher: { ranges },
    },
  };
};
const path = (rule: string, string_match: object) => ({
  header_value_match: { ...matched(`${rule}-path`), headers: [{ name: ':path', string_match }] },
});
/** An item of `rate_limits` for one rule of a policy. */
const item = (...actions: readonly object[]) => ({ actions: [{ generic_key: matched(ROUTE) }, ...actions] });
/** A route as Envoy Gateway writes it: everything is in `typed_per_filter_config`. */
const translated = (title: string, ...rate_limits: readonly object[]): FilterRow => ({
  title,
  filter: { timeout: '60s', enable_x_ratelimit_headers: 'DRAFT_VERSION_03', disable_x_envoy_ratelimited_header: true },
  route: {
    typed_per_filter_config: {
      'envoy.filters.http.ratelimit': {
        '@type': 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute',
        rate_limits,
      },
    },
  },
});

/** The rules that Envoy Gateway serves for these routes, as a file. */
const RULES = `
domain: d
descriptors:
  - key: ${ROUTE}
    value: ${ROUTE}
    descriptors:
      - key: masked_remote_address
        value: 127.0.0.0/8
        descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 4 } }]
      - key: masked_remote_address
        value: 0.0.0.0/0
        descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 2 } }]
      - key: masked_remote_address
        value: ::/0
        descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 2 } }]
      - { key: rule-0-path, value: rule-0-path, rate_limit: { unit: year, requests_per_unit: 1 } }
      - { key: rule-1-path, value: rule-1-path, rate_limit: { unit: year, requests_per_unit: 1 } }
`;

const EACH = { remote_address: {} };
const rows = {
  twice: translated(
    'two limits of one network',
    item(network('127.0.0.0/8'), EACH),
    item(network('127.0.0.0/8'), EACH),
  ),
  v4: translated('every IPv4 address', item(network('0.0.0.0/0'), EACH)),
  both: translated('every address', item(network('0.0.0.0/0'), EACH), item(network('::/0'), EACH)),
  exact: translated('an exact path', item(path('rule-0', { exact: '/login' }))),
  regex: translated(
    'a path with any query',
    item(path('rule-1', { safe_regex: { regex: String.raw`/login(\?.*)?` } })),
  ),
  refused: { title: 'a route whose policy is not accepted', route: { direct_response: { status: 500 } } },
} as const;

const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
let [weir, envoy]: [Weir?, Running?] = [];
const upstream = new Upstream((_, answer) => answer.end('done'));
const ports = new Map<keyof typeof rows, number>();
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', folder] });
  const listeners: object[] = [];
  for (const [name, row] of Object.entries(rows) as [keyof typeof rows, FilterRow][]) {
    const port = await freePort();
    ports.set(name, port);
    listeners.push(listenerOf(row, port, name));
    // the same port, which connections to ::1 reach
    if (hasIPv6) listeners.push({ ...listenerOf(row, port, `${name}-v6`), address: addressOf('::1', port) });
  }
  const adminPort = await freePort();
  const config = envoyWith({ listeners, adminPort, rlsPort: weir.grpcPort, upstreamPort: await upstream.listen() });
  envoy = await runEnvoy(JSON.stringify(config), [...ports.values()]);
});
afterAll(async () => {
  await Promise.all([envoy?.stop(), weir?.stop()]);
  upstream.close();
});

const addressOf = (address: string, port: number) => ({ socket_address: { address, port_value: port } });

async function statuses(name: keyof typeof rows, paths: readonly string[], host = '127.0.0.1'): Promise<number[]> {
  const found: number[] = [];
  for (const one of paths) found.push((await fetch(`http://${host}:${ports.get(name)}${one}`)).status);
  return found;
}

const LOGIN = ['/login', '/login?a', '/login?b', '/login'];

test('two limits of one network are one limit that counts twice', async () => {
  expect(await statuses('twice', ['/', '/', '/', '/'])).toEqual([200, 200, 429, 429]);
});

test('an exact path is counted without a query only, and a regular expression counts all', async () => {
  expect(await statuses('exact', LOGIN)).toEqual([200, 200, 200, 429]);
  expect(await statuses('regex', LOGIN)).toEqual([200, 429, 429, 429]);
});

test('a route whose policy is not accepted answers by itself, without a call', async () => {
  expect(await statuses('refused', ['/', '/', '/'])).toEqual([500, 500, 500]);
});

(hasIPv6 ? test : test.skip)('0.0.0.0/0 leaves IPv6 addresses out, unless ::/0 is beside it', async () => {
  expect(await statuses('v4', ['/', '/', '/'])).toEqual([200, 200, 429]);
  expect(await statuses('v4', ['/', '/', '/', '/', '/'], '[::1]')).toEqual([200, 200, 200, 200, 200]);
  expect(await statuses('both', ['/', '/', '/'], '[::1]')).toEqual([200, 200, 429]);
});
