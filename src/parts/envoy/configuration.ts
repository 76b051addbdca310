import { printable } from '../../base/printable.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { gatewayPolicy } from './gateway-policy.ts';
import { type DescriptorShape, type ExpectedShapes, expectedShapes, minTtlMs } from './shapes.ts';
import { type GrpcTarget, grpcCluster, headerlessKeys, headerName, quoted, wholeEnvoy } from './whole-envoy.ts';

interface ConfigurationOptions extends GrpcTarget {
  readonly kind: 'envoy' | 'istio' | 'envoy-gateway';
  readonly timeoutMs: number;
}

/**
 * Renders the configuration with which a proxy sends the descriptors of these rules, as YAML. It is a whole Envoy, an
 * EnvoyFilter of Istio, or the policy from which Envoy Gateway creates its own descriptors and rules.
 */
export function envoyConfiguration(rules: RuleTree, domain: string, options: ConfigurationOptions): string {
  if (options.kind === 'envoy-gateway') return gatewayPolicy(rules, domain);
  const expected = expectedShapes(rules, domain);
  const notes = [
    ...expected.unknown.map(
      (path) => `# ${printable(path)} needs actions of your own, as its rule does not say all that they need.\n`,
    ),
    ...expected.commits.map(
      (shape) =>
        `# Send ${printable(shape.map(({ key }) => key).join(', '))} when the stream ends, with the hits used: docs/llm-tokens.md.\n`,
    ),
  ].join('');
  const ttlMs = minTtlMs(rules, domain);
  const routes = { ...expected, ...(ttlMs !== undefined && { ttlMs }), dropsId: takesRequestId(expected) };
  return (
    notes + (options.kind === 'envoy' ? envoyAsking(domain, routes, options) : istioFilter(domain, routes, options))
  );
}

/** The requirements for routes. */
interface Routes extends Pick<ExpectedShapes, 'shapes' | 'slots' | 'adaptive' | 'reports'> {
  /** Shortest ttl of a slot; undefined without slots. */
  readonly ttlMs?: number;
  /** Whether to drop the header with the slots' id from clients' requests, as clients must not choose it. */
  readonly dropsId: boolean;
}

const REQUEST_ID = 'x-request-id';

const takesRequestId = ({ slots }: ExpectedShapes): boolean =>
  slots.some((shape) => shape.some(({ key }) => headerName(key) === REQUEST_ID));

/**
 * The rate limits of a virtual host. Envoy ignores the hits of `rate_limits` outside `RateLimitPerRoute`, and builds late
 * descriptors from the request as it was sent upstream, so these are read from what `saveHeaders` keeps.
 */
function routeRateLimits({ shapes, slots, adaptive, reports }: Routes, indent: string): string {
  const inner = `${indent}      `;
  const releases = slots.flatMap((shape) =>
    (adaptive.includes(shape) ? RELEASES_WITH_STATUS : [RELEASE]).map((hits) =>
      late(shape, inner, `${hits}, is_negative_hits: true`),
    ),
  );
  const statuses = reports.map((shape) => late(shape, inner, STATUS));
  return `${indent}typed_per_filter_config:
${indent}  envoy.filters.http.ratelimit:
${indent}    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
${indent}    rate_limits:
${shapes.map((shape) => rateLimit(shape, inner, renderAction)).join('')}${
  releases.length === 0 ? '' : `${inner}# These release the slots when the stream ends.\n${releases.join('')}`
}${
  statuses.length === 0
    ? ''
    : `${inner}# These report the status of the response, which may count.\n${statuses.join('')}`
}`;
}

const RELEASE = 'number: 1';

/** Hits of the releases of adaptive limits: the status of the response, then 499 for a request that has none. */
const STATUS = 'format: "%RESPONSE_CODE%"';
const RELEASES_WITH_STATUS = [STATUS, 'number: 499'] as const;

/** A descriptor that is sent when the stream ends. */
const late = (shape: DescriptorShape, indent: string, hits: string): string =>
  `${rateLimit(shape, indent, renderLateAction)}${indent}  hits_addend: { ${hits} }\n${indent}  apply_on_stream_done: true\n`;

type RenderAction = (entry: DescriptorShape[number]) => string;

/** One descriptor, as an item of `rate_limits`. */
const rateLimit = (shape: DescriptorShape, indent: string, render: RenderAction): string =>
  `${indent}- actions:\n${shape.map((entry) => `${indent}    - ${render(entry)}\n`).join('')}`;

function renderAction({ key, value }: DescriptorShape[number]): string {
  if (headerlessKeys.has(key)) return `${key}: {}`;
  if (value !== undefined) return `generic_key: { descriptor_value: ${quoted(value)} }`;
  return `request_headers: { header_name: ${quoted(headerName(key))}, descriptor_key: ${quoted(key)} }`;
}

/** An action that still has the value of the client's request when a route has changed the headers. */
function renderLateAction(entry: DescriptorShape[number]): string {
  if (!isHeader(entry)) return renderAction(entry);
  const text = quoted(`filter_state['${objectKey(headerName(entry.key))}']`);
  return `extension: { name: envoy.rate_limit_descriptors.expr, typed_config: { "@type": type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor, descriptor_key: ${quoted(entry.key)}, text: ${text} } }`;
}

const isHeader = ({ key, value }: DescriptorShape[number]): boolean => value === undefined && !headerlessKeys.has(key);

const objectKey = (header: string): string => `weir.${header}`;

/** A filter that keeps the headers of late descriptors, with lines indented by this number of blanks; if there are any. */
function saveHeaders({ slots, reports }: Routes, indent: number): string | undefined {
  const headers = [
    ...new Set(
      [...slots, ...reports]
        .flat()
        .filter(isHeader)
        .map(({ key }) => headerName(key)),
    ),
  ];
  if (headers.length === 0) return undefined;
  return [
    'name: envoy.filters.http.set_filter_state # values of the request for its end, as routes may change or remove them',
    'typed_config:',
    '  "@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config',
    '  on_request_headers:',
    ...headers.map(
      (name) =>
        `    - { object_key: ${quoted(objectKey(name))}, factory_key: envoy.string, format_string: { text_format_source: { inline_string: ${quoted(`%REQ(${name})%`)} }, omit_empty_values: true } }`,
    ),
  ].join(`\n${' '.repeat(indent)}`);
}

/** The filter, whose lines after the first are indented by this number of blanks. */
const filter = (domain: string, { timeoutMs }: ConfigurationOptions, indent: number): string =>
  [
    'name: envoy.filters.http.ratelimit',
    'typed_config:',
    '  "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit',
    `  domain: ${quoted(domain)}`,
    '  failure_mode_deny: false # requests pass while Weir is unreachable',
    `  timeout: ${timeoutMs / 1_000}s`,
    '  enable_x_ratelimit_headers: DRAFT_VERSION_03',
    '  rate_limited_as_resource_exhausted: true # for gRPC clients; the default, UNAVAILABLE, makes many of them retry at once',
    '  rate_limit_service:',
    '    transport_api_version: V3',
    '    grpc_service: { envoy_grpc: { cluster_name: "weir" } }',
  ].join(`\n${' '.repeat(indent)}`);

/** Envoy's timeout for an upstream request if a route sets none. */
const DEFAULT_ROUTE_TIMEOUT_MS = 15_000;

/** Timeout of routes below the ttl, as a longer request would run without a slot. */
function routeTimeout({ ttlMs }: Routes): string {
  if (ttlMs === undefined) return '';
  const timeoutMs = Math.min(DEFAULT_ROUTE_TIMEOUT_MS, Math.floor(ttlMs * 0.8));
  return `, timeout: ${timeoutMs / 1_000}s`;
}

const dropId = (indent: string): string =>
  [
    '# Ids from clients are dropped before Envoy generates its own.',
    'early_header_mutation_extensions:',
    '  - name: envoy.http.early_header_mutation.header_mutation',
    '    typed_config:',
    '      "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation',
    `      mutations: [{ remove: ${REQUEST_ID} }]`,
  ]
    .map((line) => `${indent}${line}\n`)
    .join('');

const envoyAsking = (domain: string, routes: Routes, options: ConfigurationOptions): string =>
  wholeEnvoy(
    {
      manager: routes.dropsId ? dropId(' '.repeat(16)) : '',
      filter: [saveHeaders(routes, 20) ?? [], filter(domain, options, 20)].flat().join(`\n${' '.repeat(18)}- `),
      virtualHost: `                      # One request to Weir carries all descriptors; a descriptor whose header is missing is left out.
${routeRateLimits(routes, ' '.repeat(22))}`,
      route: `{ cluster: upstream${routeTimeout(routes)} }${routes.ttlMs === undefined ? '' : ' # shorter than the ttl of a slot'}`,
    },
    options,
  );

const insertFilter = (text: string): string => `    - applyTo: HTTP_FILTER
      match:
        context: GATEWAY
        listener: { filterChain: { filter: { name: envoy.filters.network.http_connection_manager, subFilter: { name: envoy.filters.http.router } } } }
      patch:
        operation: INSERT_BEFORE
        value:
          ${text}
`;

function istioFilter(domain: string, routes: Routes, options: ConfigurationOptions): string {
  const { dropsId, ttlMs } = routes;
  const notes = [
    ...(dropsId ? [`# Drop ${REQUEST_ID} from clients' requests: clients must not choose the ids of slots.\n`] : []),
    ...(ttlMs === undefined ? [] : [`# Routes need a timeout below ${ttlMs / 1_000}s, the ttl of a slot.\n`]),
  ];
  return `${notes.join('')}apiVersion: networking.istio.io/v1alpha3
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
          ${grpcCluster(options, 'weir', ' '.repeat(10))}
${[saveHeaders(routes, 10) ?? [], filter(domain, options, 10)].flat().map(insertFilter).join('')}    - applyTo: VIRTUAL_HOST
      match: { context: GATEWAY }
      patch:
        operation: MERGE
        value:
${routeRateLimits(routes, ' '.repeat(10))}`;
}
