import type { RuleTree } from '../rules/tree.ts';
import { gatewayPolicy } from './gateway-policy.ts';
import { headerOf } from './headers.ts';
import type { Kind } from './kinds.ts';
import { type DescriptorShape, expectedShapes, type ShapeEntry } from './shapes.ts';

export interface ConfigurationOptions {
  readonly kind: Kind;
  /** Of the gRPC server. */
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
}

/**
 * The configuration that has a proxy send the descriptors of these rules, as YAML: a whole Envoy, an EnvoyFilter of
 * Istio, or the policy from which Envoy Gateway makes descriptors and rules of its own.
 */
export function envoyConfiguration(rules: RuleTree, domain: string, options: ConfigurationOptions): string {
  if (options.kind === 'envoy-gateway') return gatewayPolicy(rules, domain);
  const { shapes, unknown } = expectedShapes(rules, domain);
  const notes = unknown
    .map((path) => `# No configuration can name the key of ${path}: send it by an action of your own.\n`)
    .join('');
  return (
    notes +
    releaseNote(rules, domain) +
    (options.kind === 'envoy' ? wholeEnvoy(domain, shapes, options) : istioFilter(domain, shapes, options))
  );
}

/** What `rate_limits` of a virtual host cannot say. */
const releaseNote = (rules: RuleTree, domain: string): string =>
  rules.domains
    .get(domain)
    ?.ids?.flat()
    .some(({ as }) => as === 'hold')
    ? '# Slots of algorithm: in_flight are given back by descriptors that routes send when streams end, which are not here: docs/in-flight.md has them.\n'
    : '';

/** One descriptor, as an item of `rate_limits`. */
function rateLimits(shapes: readonly DescriptorShape[], indent: string): string {
  return shapes
    .map((shape) => `${indent}- actions:\n${shape.map((entry) => `${indent}    - ${actionOf(entry)}\n`).join('')}`)
    .join('');
}

/** Actions that take nothing, by the key that they make. */
const actions: ReadonlySet<string> = new Set([
  'remote_address',
  'masked_remote_address',
  'source_cluster',
  'destination_cluster',
]);

function actionOf({ key, value }: ShapeEntry): string {
  if (actions.has(key)) return `${key}: {}`;
  if (value !== undefined) return `generic_key: { descriptor_value: ${quoted(value)} }`;
  return `request_headers: { header_name: ${quoted(headerOf(key))}, descriptor_key: ${quoted(key)} }`;
}

/** JSON is YAML. */
const quoted = (text: string): string => JSON.stringify(text);

const filter = (domain: string, { timeoutMs }: ConfigurationOptions, cluster: string, indent: string): string =>
  [
    'name: envoy.filters.http.ratelimit',
    'typed_config:',
    '  "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit',
    `  domain: ${quoted(domain)}`,
    '  failure_mode_deny: false # requests pass while Weir cannot be asked',
    `  timeout: ${timeoutMs / 1_000}s`,
    '  enable_x_ratelimit_headers: DRAFT_VERSION_03',
    '  rate_limit_service:',
    '    transport_api_version: V3',
    `    grpc_service: { envoy_grpc: { cluster_name: ${quoted(cluster)} } }`,
  ].join(`\n${indent}`);

const cluster = ({ host, port }: ConfigurationOptions, name: string, indent: string): string =>
  [
    `name: ${name}`,
    'type: STRICT_DNS',
    'connect_timeout: 1s',
    'typed_extension_protocol_options:',
    '  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:',
    '    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    '    explicit_http_config: { http2_protocol_options: {} }',
    'load_assignment:',
    `  cluster_name: ${name}`,
    '  endpoints:',
    `    - lb_endpoints: [{ endpoint: { address: { socket_address: { address: ${quoted(host)}, port_value: ${port} } } } }]`,
  ].join(`\n${indent}`);

function wholeEnvoy(domain: string, shapes: readonly DescriptorShape[], options: ConfigurationOptions): string {
  return `static_resources:
  listeners:
    - name: limited
      address: { socket_address: { address: 0.0.0.0, port_value: 10000 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: limited
                http_filters:
                  - ${filter(domain, options, 'weir', ' '.repeat(20))}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: everything
                      domains: ["*"]
                      # One request to Weir carries all descriptors; one whose header is missing is left out.
                      rate_limits:
${rateLimits(shapes, ' '.repeat(24))}                      routes:
                        - match: { prefix: / }
                          route: { cluster: upstream }
  clusters:
    - ${cluster(options, 'weir', '      ')}
    - name: upstream # yours
      type: STRICT_DNS
      connect_timeout: 1s
      load_assignment:
        cluster_name: upstream
        endpoints:
          - lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8000 } } } }]
`;
}

function istioFilter(domain: string, shapes: readonly DescriptorShape[], options: ConfigurationOptions): string {
  return `apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata:
  name: weir
  namespace: istio-system
spec:
  workloadSelector:
    labels: { istio: ingressgateway }
  configPatches:
    - applyTo: CLUSTER
      patch:
        operation: ADD
        value:
          ${cluster(options, 'weir', ' '.repeat(10))}
    - applyTo: HTTP_FILTER
      match:
        context: GATEWAY
        listener: { filterChain: { filter: { name: envoy.filters.network.http_connection_manager, subFilter: { name: envoy.filters.http.router } } } }
      patch:
        operation: INSERT_BEFORE
        value:
          ${filter(domain, options, 'weir', ' '.repeat(10))}
    - applyTo: VIRTUAL_HOST
      match: { context: GATEWAY }
      patch:
        operation: MERGE
        value:
          rate_limits:
${rateLimits(shapes, ' '.repeat(12))}`;
}
