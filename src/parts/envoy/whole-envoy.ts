import { printableJson } from '../../base/printable.ts';

/** A gRPC server that Envoy calls. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
}

/** A regular expression in the syntax of RE2 for the texts that a pattern with `*` matches. */
export const patternRegex = (pattern: string): string =>
  pattern.replace(/[\\^$.+?()[\]{}|]/g, '\\$&').replaceAll('*', '.*');

/** Quotes a text as JSON, which is YAML too. */
export const quoted = (text: string): string => printableJson(text, 0);

/** Keys of descriptors that an action sets itself, and no header provides. */
export const headerlessKeys: ReadonlySet<string> = new Set([
  'remote_address',
  'masked_remote_address',
  'source_cluster',
  'destination_cluster',
]);

/**
 * Prefers IPv4, since Envoy's resolver returns ::1 for localhost on every machine, also without IPv6. `ALL` does not help, since each address is then a host of its own and half the calls fail.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto
 */
const DNS_FAMILY =
  'dns_lookup_family: V4_PREFERRED # the default resolves localhost to ::1, even where there is no IPv6';

/** Limits on waiting requests, beyond which Envoy treats requests as undecided without calling Weir. */
const THRESHOLDS =
  'circuit_breakers: { thresholds: [{ max_requests: 100000, max_pending_requests: 100000 }] } # by default, Envoy does not call Weir while 1024 requests wait';

/**
 * Lines of a cluster by which Envoy stops calling an instance that is dead or shuts down. By default it would ignore them
 * while fewer than half of the instances are healthy; with a threshold of 0 it would call none if all fail.
 */
export const HEALTH_CHECKS = [
  'health_checks: [{ interval: 1s, no_traffic_interval: 1s, timeout: 1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: { service_name: ratelimit } }]',
  'common_lb_config: { healthy_panic_threshold: { value: 1 } }',
] as const;

/** A cluster with HTTP/2, as a mapping; all lines but the first are indented. */
export const grpcCluster = ({ host, port }: GrpcTarget, name: string, indent: string): string =>
  [
    `name: ${name}`,
    'type: STRICT_DNS',
    DNS_FAMILY,
    'connect_timeout: 1s',
    THRESHOLDS,
    '# Envoy calls the instances that pass these checks, or all if none does.',
    ...HEALTH_CHECKS,
    'typed_extension_protocol_options:',
    '  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:',
    '    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    '    explicit_http_config: { http2_protocol_options: {} }',
    'load_assignment:',
    `  cluster_name: ${name}`,
    '  endpoints:',
    `    - lb_endpoints: [{ endpoint: { address: { socket_address: { address: ${quoted(host)}, port_value: ${port} } } } }]`,
  ].join(`\n${indent}`);

/** Parts in which configurations of a whole Envoy differ, as whole lines except for the filter and the route. */
interface EnvoyParts {
  /** Lines of the connection manager, indented by 16. */
  readonly manager?: string | undefined;
  /** The filters before the router, indented by 20 except for the first line. */
  readonly filter: string;
  /** Lines of the virtual host, indented by 22. */
  readonly virtualHost?: string | undefined;
  readonly route: string;
}

/** Parts in which listeners differ, with `manager`, `filter` and `virtualHost` as in `EnvoyParts`. */
interface ListenerParts extends Partial<Pick<EnvoyParts, 'manager' | 'filter' | 'virtualHost'>> {
  readonly name: string;
  /** An address of this host. */
  readonly host: string;
  readonly port: number;
  /** The action of its only route. */
  readonly action: string;
}

/** An HTTP listener, as an item of `listeners`. */
export const httpListener = (parts: ListenerParts): string => {
  const { name, host, port, manager = '', filter, virtualHost = '', action } = parts;
  return `    - name: ${name}
      address: { socket_address: { address: ${host}, port_value: ${port} } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: ${name}
${manager}                http_filters:
${filter === undefined ? '' : `                  - ${filter}\n`}                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: everything
                      domains: ["*"]
${virtualHost}                      routes:
                        - match: { prefix: / }
                          ${action}
`;
};

const IDENTITIES =
  "                # The client's address is that of its connection; clients can forge x-forwarded-for. Behind proxies: xff_num_trusted_hops.\n                use_remote_address: true\n                # Other spellings of a path have no counters of their own.\n                normalize_path: true\n                merge_slashes: true\n";

/** An Envoy that listens on port 10000, calls Weir, and routes everything to a cluster `upstream`; as YAML. */
export const wholeEnvoy = ({ manager = '', filter, virtualHost, route }: EnvoyParts, weir: GrpcTarget): string =>
  `admin: # for weir doctor; only on this machine, since it can also stop Envoy
  address: { socket_address: { address: 127.0.0.1, port_value: 9901 } }
static_resources:
  listeners:
${httpListener({ name: 'limited', host: '0.0.0.0', port: 10_000, manager: IDENTITIES + manager, filter, virtualHost, action: `route: ${route}` })}  clusters:
    - ${grpcCluster(weir, 'weir', '      ')}
    - name: upstream # yours
      type: STRICT_DNS
      dns_lookup_family: V4_PREFERRED
      connect_timeout: 1s
      load_assignment:
        cluster_name: upstream
        endpoints:
          - lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8000 } } } }]
`;

/** Header with a key's values: one of those below, with or without its colon; else `x-` and the key, unless it begins so. */
export function headerName(key: string): string {
  const name = key.toLowerCase().replace(/^:/, '');
  if (Object.hasOwn(headers, name)) return headers[name] as string; // just found
  return `x-${name.replace(/^x-/, '').replace(/[^a-z0-9]+/g, '-')}`;
}

const headers: Readonly<Record<string, string>> = {
  path: ':path',
  method: ':method',
  host: ':authority',
  authority: ':authority',
  user_agent: 'user-agent',
  authorization: 'authorization',
};
