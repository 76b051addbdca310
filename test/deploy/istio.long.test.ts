import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { loadAll } from 'js-yaml';
import { envoyConfiguration } from '../../src/parts/envoy/configuration.ts';
import { runEnvoy } from '../helpers/envoy.ts';
import { freePort } from '../helpers/process.ts';
import { rulesFrom } from '../helpers/rules.ts';
import { helm } from '../helpers/tools.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const CHART = fileURLToPath(new URL('../../deploy/helm/weir', import.meta.url));
const RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]\n';

interface Patch {
  readonly applyTo: string;
  readonly match: object;
  readonly patch: { readonly operation: string; readonly value: object };
}
interface EnvoyFilter {
  readonly kind: string;
  readonly spec: { readonly configPatches: readonly Patch[] };
}

/** The patches of the chart with the preset for Istio and these settings. */
async function chartPatches(...settings: readonly string[]): Promise<readonly Patch[]> {
  const args = ['template', 'weir', CHART, '--namespace', 'limits', '--kube-version', '1.34.0'];
  const { stdout } = await promisify(execFile)(await helm(), [...args, '--set', 'preset=istio', ...settings]);
  return patchesIn(stdout);
}

const patchesIn = (text: string): readonly Patch[] =>
  (loadAll(text) as (EnvoyFilter | null)[]) // validated in charts.long.test.ts
    .flatMap((found) => (found?.kind === 'EnvoyFilter' ? found.spec.configPatches : []));

let folder: string;
let weir: Weir;
let patches: readonly Patch[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'istio-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  weir = await startWeir({}, { args: ['--rules', join(folder, 'rules.yaml')] });
  patches = await chartPatches('--set', 'istio.timeout=60s'); // the machine may be busy
});
afterAll(async () => {
  await weir.stop();
});

/** The value of the only patch of this kind. */
function patchOf(applyTo: string, operation: string): object {
  const found = patches.filter(({ applyTo: to, patch }) => to === applyTo && patch.operation === operation);
  expect(found).toHaveLength(1);
  return found[0]?.patch.value ?? {};
}

/** The configuration that istiod would give a gateway with one route, with the patches applied as istiod does. */
function bootstrap(port: number, upstreamPort: number): object {
  const connectionManager = (name: string, virtualHost: object, filters: readonly object[]) => ({
    name: 'envoy.filters.network.http_connection_manager',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
      stat_prefix: name,
      route_config: { name, virtual_hosts: [{ name: 'everything', domains: ['*'], ...virtualHost }] },
      http_filters: [
        ...filters, // INSERT_BEFORE the router
        {
          name: 'envoy.filters.http.router',
          typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' },
        },
      ],
    },
  });
  const listener = (name: string, at: number, filter: object) => ({
    name,
    address: { socket_address: { address: '127.0.0.1', port_value: at } },
    filter_chains: [{ filters: [filter] }],
  });
  const cluster = (name: string, at: number, more: object = {}) => ({
    name,
    type: 'STATIC',
    connect_timeout: '60s',
    load_assignment: {
      cluster_name: name,
      endpoints: [
        { lb_endpoints: [{ endpoint: { address: { socket_address: { address: '127.0.0.1', port_value: at } } } }] },
      ],
    },
    ...more,
  });
  const http2 = {
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
  };
  const limited = {
    routes: [{ match: { prefix: '/' }, route: { cluster: 'upstream' } }],
    ...patchOf('VIRTUAL_HOST', 'MERGE'),
  };
  const answering = { routes: [{ match: { prefix: '/' }, direct_response: { status: 200 } }] };
  return {
    static_resources: {
      listeners: [
        listener('gateway', port, connectionManager('gateway', limited, [patchOf('HTTP_FILTER', 'INSERT_BEFORE')])),
        listener('upstream', upstreamPort, connectionManager('upstream', answering, [])),
      ],
      clusters: [
        cluster('upstream', upstreamPort),
        cluster('outbound|8081||weir.limits.svc.cluster.local', weir.grpcPort, {
          ...http2,
          ...patchOf('CLUSTER', 'MERGE'),
        }), // istiod's name for a Service's port
      ],
    },
  };
}

test('the EnvoyFilters of the chart make a real Envoy limit each user', async () => {
  const port = await freePort();
  const running = await runEnvoy(JSON.stringify(bootstrap(port, await freePort())), [port]);
  try {
    const get = (user?: string) =>
      fetch(`http://127.0.0.1:${port}/`, { headers: user === undefined ? {} : { 'x-user': user } });
    const statuses: number[] = [];
    for (const user of ['ann', 'ann', 'ann', 'bob']) statuses.push((await get(user)).status);
    expect(statuses).toEqual([200, 200, 429, 200]);
    const refused = await get('ann');
    expect(refused.headers.get('x-ratelimit-limit')).toContain('2');
    expect((await get()).status).toBe(200); // no x-user, no descriptor
  } finally {
    await running.stop();
  }
});

test('the chart renders for the same descriptors what weir envoy prints', async () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
  - key: tenant
    descriptors:
      - { key: request_id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 18s } }
`);
  const target = { kind: 'istio', host: 'weir', port: 8081, timeoutMs: 250 } as const;
  const printed = patchesIn(envoyConfiguration(rules, 'demo', target));
  const valuesOf = (all: readonly Patch[], applyTo: string) =>
    all.filter((one) => one.applyTo === applyTo).map(({ patch }) => patch.value);
  const [host] = valuesOf(printed, 'VIRTUAL_HOST');
  const { rate_limits: rateLimits } = Object.values(
    (host as { typed_per_filter_config: Readonly<Record<string, { rate_limits: object[] }>> }).typed_per_filter_config,
  )[0] ?? { rate_limits: [] };
  const file = join(folder, 'values.yaml');
  writeFileSync(file, JSON.stringify({ istio: { savedHeaders: ['x-tenant', 'x-request-id'], rateLimits } }));
  const rendered = await chartPatches('--values', file);
  expect(valuesOf(rendered, 'VIRTUAL_HOST')).toEqual([host]);
  const filters = valuesOf(rendered, 'HTTP_FILTER');
  expect(filters).toHaveLength(2);
  expect(filters[0]).toEqual(valuesOf(printed, 'HTTP_FILTER')[0]);
});

test('all patches are for one context', () => {
  expect(new Set(patches.map(({ match }) => (match as { context: string }).context))).toEqual(new Set(['GATEWAY']));
});

test('the page names the values of the chart', () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/gateways.md', import.meta.url)), 'utf8');
  const values = readFileSync(join(CHART, 'values.yaml'), 'utf8');
  for (const [, name = ''] of page.matchAll(/`istio\.(\w+)`/g)) expect(values).toMatch(new RegExp(`^  ${name}:`, 'm'));
});
