import { Agent, request } from 'node:http';
import {
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { rateLimitService } from '../../src/edge/rls/proto.ts';
import type { WireRequest, WireResponse } from '../../src/edge/wire/wire.ts';
import { runEnvoy } from './envoy.ts';
import { freePort } from './process.ts';
import { until } from './until.ts';
import { Upstream } from './upstream.ts';

/** A configuration of Envoy's rate limit filter, and a request that it receives. */
export interface FilterRow {
  readonly title: string;
  /** Fields of the filter's configuration. */
  readonly filter?: object;
  /** Fields of the item of `http_filters`. */
  readonly item?: object;
  /** Filters before it. */
  readonly before?: readonly object[];
  /** Fields of the connection manager, the route configuration, the virtual host and its only route. */
  readonly manager?: object;
  readonly routes?: object;
  readonly host?: object;
  readonly route?: object;
  readonly path?: string;
  /** Body of a POST, as JSON; absent: a GET. */
  readonly body?: object;
  /** Names and values, in order. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

/** What Envoy has sent for a row. */
export interface RecordedCalls {
  readonly early: readonly string[];
  readonly late: readonly string[];
  readonly status: number;
}

/** A title without the `%` that Envoy would take for a format. */
const rowName = (title: string): string => title.replaceAll('%', '').trim();

const ROUTER = {
  name: 'envoy.filters.http.router',
  typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' },
};

/** The listener of a row, as an administrator would write it. */
export function listenerOf(row: FilterRow, port: number, title = row.title): object {
  const { filter, item, before = [], manager, routes, host, route } = row;
  const limiting = {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit',
      domain: 'd',
      timeout: '60s',
      rate_limit_service: {
        transport_api_version: 'V3',
        grpc_service: {
          envoy_grpc: { cluster_name: 'rls' },
          initial_metadata: [{ key: 'x-row', value: rowName(title) }],
        },
      },
      ...filter,
    },
    ...item,
  };
  return {
    name: title,
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
    filter_chains: [
      {
        filters: [
          {
            name: 'envoy.filters.network.http_connection_manager',
            typed_config: {
              '@type':
                'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
              stat_prefix: 'row',
              use_remote_address: true,
              http_filters: [...before, limiting, ROUTER],
              ...manager,
              route_config: {
                name: title,
                ...routes,
                virtual_hosts: [
                  {
                    name: 'everything',
                    domains: ['*'],
                    routes: [
                      {
                        match: { prefix: '/' },
                        ...(isAnswered(route) ? {} : { route: { cluster: 'upstream' } }),
                        ...route,
                      },
                    ],
                    ...host,
                  },
                ],
              },
            },
          },
        ],
      },
    ],
  };
}

const isAnswered = (route: object = {}): boolean => 'direct_response' in route || 'redirect' in route;

const cluster = (name: string, port: number, more: object = {}): object => ({
  name,
  type: 'STATIC',
  connect_timeout: '60s',
  load_assignment: {
    cluster_name: name,
    endpoints: [
      { lb_endpoints: [{ endpoint: { address: { socket_address: { address: '127.0.0.1', port_value: port } } } }] },
    ],
  },
  ...more,
});

const HTTP2 = {
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
      explicit_http_config: { http2_protocol_options: {} },
    },
  },
};

interface EnvoyParts {
  readonly listeners: readonly object[];
  readonly adminPort: number;
  readonly rlsPort: number;
  readonly upstreamPort: number;
}

/** The configuration of an Envoy with these listeners. */
export const envoyWith = ({ listeners, adminPort, rlsPort, upstreamPort }: EnvoyParts) => ({
  admin: { address: { socket_address: { address: '127.0.0.1', port_value: adminPort } } },
  node: { id: 'node', cluster: 'edge' },
  layered_runtime: { layers: [{ name: 'static', static_layer: { 'ratelimit.off.http_filter_enabled': 0 } }] },
  static_resources: {
    listeners,
    clusters: [cluster('rls', rlsPort, HTTP2), cluster('upstream', upstreamPort), cluster('other', upstreamPort)],
  },
});

/** A call as a text: the domain if it is not `d`, and entries and hits of each descriptor, without those that count once. */
export function callText({ domain, descriptors, hits_addend: hits }: WireRequest): string {
  const texts = descriptors.map(({ entries, hits_addend: own, is_negative_hits: isNegative, limit }) => {
    const more = [
      own && (own.value !== 1 || isNegative) ? `*${isNegative ? -own.value : own.value}` : '',
      limit ? `limit ${limit.requests_per_unit}/${limit.unit}` : '',
    ];
    return [entries.map(({ key, value }) => `${key}=${value}`).join(','), ...more]
      .filter((one) => one !== '')
      .join(' ');
  });
  return `${domain === 'd' ? '' : `${domain}: `}${texts.join(' | ')}${hits ? ` all*${hits}` : ''}`;
}

/** Headers of the upstream's answer, whose body is `done`. */
export const COSTS = {
  'x-cost': '37',
  'x-huge': '2000000000',
  'x-text': 'many',
  'x-part': '1.5',
  'x-power': '1e3',
  'x-below': '-3',
};

/** The headers of a row without others. */
export const USUAL: NonNullable<FilterRow['headers']> = [['x-user', 'ann']];

const LAST: FilterRow = {
  title: 'last',
  host: { rate_limits: [{ actions: [{ generic_key: { descriptor_value: 'end' } }], apply_on_stream_done: true }] },
};

/** Runs one request for each row through a real Envoy, and returns what a rate limit service has received. */
export async function recordCalls(rows: readonly FilterRow[]): Promise<{
  readonly calls: ReadonlyMap<string, RecordedCalls>;
  /** `/config_dump?include_eds` of Envoy. */
  readonly configDump: unknown;
}> {
  const received = new Map<string, string[]>();
  const server = new Server();
  const shouldRateLimit = (
    call: ServerUnaryCall<WireRequest, WireResponse>,
    done: sendUnaryData<WireResponse>,
  ): void => {
    const row = String(call.metadata.get('x-row')[0]);
    received.set(row, [...(received.get(row) ?? []), callText(call.request)]);
    done(null, { overall_code: 1, statuses: [], response_headers_to_add: [] });
  };
  server.addService(rateLimitService as Record<string, MethodDefinition<object, object>>, { shouldRateLimit });
  const rlsPort = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
  let current = '';
  const early = new Map<string, number>();
  const upstream = new Upstream((_, response) => {
    early.set(current, received.get(rowName(current))?.length ?? 0);
    response.writeHead(200, COSTS).end('done');
  });
  const all = [...rows, LAST];
  const ports = new Map<string, number>();
  for (const { title } of all) ports.set(title, await freePort());
  const adminPort = await freePort();
  const listeners = all.map((row) => listenerOf(row, ports.get(row.title) ?? 0));
  const config = envoyWith({ listeners, adminPort, rlsPort, upstreamPort: await upstream.listen() });
  const envoy = await runEnvoy(JSON.stringify(config), [...ports.values(), adminPort]);
  try {
    const statuses = new Map<string, number>();
    for (const { title, path = '/', headers = USUAL, body } of all) {
      current = title;
      statuses.set(title, await send(ports.get(title) ?? 0, path, headers, body));
    }
    await until('the last call', () => received.has(LAST.title));
    const calls = new Map(
      rows.map(({ title }) => {
        const own = received.get(rowName(title)) ?? [];
        const count = early.get(title) ?? own.length;
        return [
          title,
          { early: own.slice(0, count), late: own.slice(count), status: statuses.get(title) ?? 0 },
        ] as const;
      }),
    );
    const configDump: unknown = await (await fetch(`http://127.0.0.1:${adminPort}/config_dump?include_eds`)).json();
    return { calls, configDump };
  } finally {
    await envoy.stop();
    upstream.close();
    server.forceShutdown();
  }
}

const send = (port: number, path: string, headers: NonNullable<FilterRow['headers']>, body?: object): Promise<number> =>
  new Promise((resolve, reject) => {
    const method = body ? 'POST' : 'GET';
    const sent = request({ host: '127.0.0.1', port, path, method, agent: new Agent(), setHost: false }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode ?? 0));
    });
    sent.setHeader('host', 'shop.example');
    for (const [name] of headers)
      sent.setHeader(
        name,
        headers.flatMap(([other, value]) => (other === name ? [value] : [])),
      );
    if (body) sent.setHeader('content-type', 'application/json');
    sent.once('error', reject).end(body && JSON.stringify(body));
  });
