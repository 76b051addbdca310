import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { loadAll } from 'js-yaml';
import { runEnvoy } from '../helpers/envoy.ts';
import { freePort } from '../helpers/process.ts';
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

let folder: string;
let weir: Weir;
let patches: readonly Patch[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'istio-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  weir = await startWeir({}, { args: ['--rules', join(folder, 'rules.yaml')] });
  const { stdout } = await promisify(execFile)(await helm(), [
    'template',
    'weir',
    CHART,
    '--namespace',
    'limits',
    '--kube-version',
    '1.34.0',
    '--set',
    'preset=istio',
    '--set',
    'istio.timeout=60s', // the machine may be busy
  ]);
  const filters = loadAll(stdout).filter((found) => found !== null) as EnvoyFilter[]; // validated in charts.long.test.ts
  patches = filters.filter(({ kind }) => kind === 'EnvoyFilter').flatMap(({ spec }) => spec.configPatches);
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

test('all patches are for one context', () => {
  expect(new Set(patches.map(({ match }) => (match as { context: string }).context))).toEqual(new Set(['GATEWAY']));
});

test('the page names the values of the chart', () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/gateways.md', import.meta.url)), 'utf8');
  const values = readFileSync(join(CHART, 'values.yaml'), 'utf8');
  for (const [, name = ''] of page.matchAll(/`istio\.(\w+)`/g)) expect(values).toMatch(new RegExp(`^  ${name}:`, 'm'));
});
