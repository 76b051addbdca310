import { Problems } from '../../engine/rules/read/problem.ts';
import {
  type FieldReaders,
  type LimitItem,
  type RequestFields,
  readLimitItem,
  valueAction,
} from '../lab/mapping/actions.ts';
import { compileRegExp, type MappingBlock, parseBlock } from '../lab/mapping/mapping-block.ts';
import { asObject, asObjects, isTyped, objectsIn, type UncheckedObject } from './dump.ts';

/** The settings of a rate limit filter that concern all of its calls. */
export interface LimitFilter {
  readonly domain: string;
  readonly cluster: string | undefined;
  /** Infinity without a timeout. */
  readonly timeoutMs: number;
  /** What happens to requests while the service is unreachable. */
  readonly onFailure: string;
  /** Whether refused requests are forwarded all the same. */
  readonly isEnforced: boolean;
}

/** An item of `rate_limits`. */
interface SentItem extends LimitItem {
  /** Equal for items that send the same descriptor. */
  readonly actions: string;
}

/** How the requests of one route reach a rate limit service through one filter. */
export interface RouteCalls {
  readonly listener: string;
  /** The virtual host and the route, or the kind of connections. */
  readonly place: string;
  readonly filter: LimitFilter;
  readonly domain: string;
  /** Why there is no call; undefined if there can be one. */
  readonly silence: string | undefined;
  /** Whether somebody has configured the silence, and not only left out a list. */
  readonly isSwitchedOff: boolean;
  /** Whether `hits_addend` of the list has an effect. */
  readonly ownHits: boolean;
  readonly items: readonly SentItem[];
  /** Timeout of the request to the upstream; Infinity without one. */
  readonly timeoutMs: number;
  /** The headers of a request after the route has changed them; late descriptors are built from these. */
  upstreamHeaders(headers: RequestHeaders): RequestHeaders;
  /** How the route changes a header before the late descriptors are built. */
  changeOf(header: string): 'removed' | 'changed' | undefined;
}

/** The values of headers by lower-case name. */
export type RequestHeaders = ReadonlyMap<string, readonly string[]>;

/** A request in the course of the filter. */
export interface ModelRequest {
  /** Headers when the filter builds the descriptors. */
  readonly headers: RequestHeaders;
  /** Headers as received. */
  readonly received: RequestHeaders;
  /** Metadata by namespace. */
  readonly metadata?: UncheckedObject;
  /** The values of commands about the response, such as `RESPONSE_CODE`. */
  readonly commands?: ReadonlyMap<string, string>;
  readonly address?: string;
  readonly cluster?: string;
  readonly sourceCluster?: string;
}

const requestIn = (fields: RequestFields): ModelRequest => fields.request as ModelRequest; // the only field

/** A request header that is kept as it was received, and the value without it or with an empty one. */
interface SavedHeader {
  readonly header: string;
  readonly absent: string | undefined;
}

/** Readers of a `ModelRequest`. @param saved  the headers in the filter state, by the name of their object */
const readersOf = (
  saved: ReadonlyMap<string, SavedHeader>,
): FieldReaders & { state(name: string): SavedHeader | undefined } => ({
  header: (name) => (fields) => requestIn(fields).headers.get(name.toLowerCase())?.[0],
  headers: (name) => (fields) => requestIn(fields).headers.get(name.toLowerCase()) ?? [],
  metadata: (namespace, path) => (fields) =>
    path.reduce<unknown>((value, key) => asObject(value)[key], requestIn(fields).metadata?.[namespace]),
  command: (name) => (fields) => requestIn(fields).commands?.get(name),
  address: (fields) => requestIn(fields).address,
  ipv6Prefix: 128,
  cluster: (fields) => requestIn(fields).cluster,
  sourceCluster: (fields) => requestIn(fields).sourceCluster ?? '',
  state: (name) => saved.get(name),
});

/** How each route of an Envoy calls rate limit services, by its `/config_dump`; a test compares it with Envoy. */
export function routeCalls(configDump: unknown): readonly RouteCalls[] {
  const found: RouteCalls[] = [];
  for (const listener of listenersIn(configDump)) {
    const name = String(listener.name ?? 'without a name');
    for (const chain of [...asObjects(listener.filter_chains), asObject(listener.default_filter_chain)])
      for (const { typed_config } of asObjects(chain.filters)) {
        const config = asObject(typed_config);
        if (isTyped(config, 'HttpConnectionManager')) found.push(...managerCalls(name, config, configDump));
        else if (isTyped(config, 'network.ratelimit.v3.RateLimit')) found.push(connectionCalls(name, config));
      }
  }
  return found;
}

/** Listeners that are in use. */
function* listenersIn(configDump: unknown): Iterable<UncheckedObject> {
  for (const part of asObjects(asObject(configDump).configs)) {
    for (const { listener } of asObjects(part.static_listeners)) yield asObject(listener);
    for (const { active_state: state } of asObjects(part.dynamic_listeners)) yield asObject(asObject(state).listener);
  }
}

/** The filter for connections, whose descriptors are constant. It calls once for each connection. */
function connectionCalls(listener: string, config: UncheckedObject): RouteCalls {
  const filter = readFilter(config);
  const items = asObjects(config.descriptors).map(({ entries }) => {
    const actions = asObjects(entries).map(({ key, value }) => ({
      generic_key: { descriptor_key: key, descriptor_value: value },
    }));
    const item = readItem({ actions }, readersOf(new Map()));
    const isFormat = (value = ''): boolean => value.includes('%');
    return {
      ...item,
      shape: item.shape.map(({ key, value }) => ({ key, value: isFormat(value) ? undefined : value })),
    };
  });
  return {
    listener,
    place: 'each connection',
    filter,
    domain: filter.domain,
    silence: undefined,
    isSwitchedOff: false,
    ownHits: false,
    items,
    timeoutMs: 0,
    upstreamHeaders: (headers) => headers,
    changeOf: () => undefined,
  };
}

function* managerCalls(listener: string, manager: UncheckedObject, configDump: unknown): Iterable<RouteCalls> {
  const saved = new Map<string, SavedHeader>();
  for (const item of asObjects(manager.http_filters)) {
    const config = asObject(item.typed_config ?? extensionConfig(String(item.name), configDump));
    if (isTyped(config, 'set_filter_state.v3.Config')) saveHeaders(config, saved);
    if (!isTyped(config, 'ratelimit.v3.RateLimit')) continue;
    const from = { item, config, filter: readFilter(config), readers: readersOf(new Map(saved)) };
    for (const place of placesIn(manager, configDump)) yield callsAt(listener, place, from);
  }
}

/** The configuration of a filter that Envoy has discovered. */
function extensionConfig(name: string, configDump: unknown): unknown {
  for (const { ecds_filter: filter } of objectsIn(asObject(configDump).configs))
    if (asObject(filter).name === name) return asObject(filter).typed_config;
  return undefined;
}

/** Adds the headers that `set_filter_state` saves before a route changes them. */
function saveHeaders(config: UncheckedObject, saved: Map<string, SavedHeader>): void {
  for (const { object_key: key, format_string: format, skip_if_empty: skipsEmpty } of asObjects(
    config.on_request_headers,
  )) {
    const { inline_string: text } = asObject(asObject(format).text_format_source);
    const [, header] = /^%REQ\(([^):]*|:\w+)\)%$/i.exec(String(text)) ?? [];
    const absent = skipsEmpty === true ? undefined : asObject(format).omit_empty_values === true ? '' : '-';
    if (header !== undefined) saved.set(String(key), { header: header.toLowerCase(), absent });
  }
}

/** A route, with what surrounds it: a cluster among several, the virtual host and the route configuration. */
interface Place {
  readonly text: string;
  readonly route: UncheckedObject;
  /** From the most specific part to the least. */
  readonly parts: readonly UncheckedObject[];
  readonly host: UncheckedObject;
}

function* placesIn(manager: UncheckedObject, configDump: unknown): Iterable<Place> {
  const routes = asObject(
    manager.route_config ?? routeConfiguration(asObject(manager.rds).route_config_name, configDump),
  );
  for (const host of asObjects(routes.virtual_hosts))
    for (const route of asObjects(host.routes)) {
      const text = `virtual host ${host.name}, route ${routeText(route)}`;
      const { clusters } = asObject(asObject(route.route).weighted_clusters);
      for (const cluster of asObjects(clusters))
        yield { text: `${text}, cluster ${cluster.name}`, route, host, parts: [cluster, route, host, routes] };
      if (asObjects(clusters).length === 0) yield { text, route, host, parts: [route, host, routes] };
    }
}

function routeConfiguration(name: unknown, configDump: unknown): unknown {
  const found = [...objectsIn(asObject(configDump).configs)].filter(
    ({ route_config: one }) => asObject(one).name === name,
  );
  return found[0]?.route_config;
}

function routeText({ name, match }: UncheckedObject): string {
  if (typeof name === 'string' && name !== '') return name;
  const { prefix, path, safe_regex, path_separated_prefix: separated, connect_matcher } = asObject(match);
  const regex = asObject(safe_regex).regex;
  return String(prefix ?? path ?? separated ?? regex ?? (connect_matcher ? 'CONNECT' : 'without a path'));
}

interface FilterPlace {
  readonly item: UncheckedObject;
  readonly config: UncheckedObject;
  readonly filter: LimitFilter;
  readonly readers: ReturnType<typeof readersOf>;
}

function callsAt(listener: string, place: Place, { item, config, filter, readers }: FilterPlace): RouteCalls {
  const { isDisabled, perRoute } = settingsAt(place, item);
  const { domain: ownDomain } = perRoute;
  const { limits, ownHits } = limitsAt(place, config, perRoute);
  const stage = ownHits ? 0 : Number(config.stage ?? 0);
  const all = limits.map((one) => readItem(one, readers));
  const items = ownHits ? all : all.filter((one) => one.stage === stage);
  const reason = switchedOff(place, config, isDisabled);
  const otherStage = all.length > 0 && items.length === 0;
  const missing = otherStage ? `no rate_limits of the filter's stage ${stage}` : 'no rate_limits apply to it';
  return {
    listener,
    place: place.text,
    filter,
    domain: typeof ownDomain === 'string' && ownDomain !== '' ? ownDomain : filter.domain,
    silence: reason ?? (items.length === 0 ? missing : undefined),
    isSwitchedOff: (reason !== undefined && all.length > 0) || otherStage,
    ownHits,
    items,
    timeoutMs: routeTimeoutMs(place.route),
    upstreamHeaders: (headers) => changeHeaders(headers, place),
    changeOf: (header) => changeOf(header, place),
  };
}

/** The filter's most specific settings of a route. */
function settingsAt({ parts }: Place, item: UncheckedObject): { isDisabled: boolean; perRoute: UncheckedObject } {
  for (const part of parts) {
    const own = asObject(asObject(part.typed_per_filter_config)[String(item.name)]);
    if (own['@type'] === undefined) continue;
    if (!isTyped(own, 'FilterConfig')) return { isDisabled: false, perRoute: own };
    return { isDisabled: own.disabled === true, perRoute: asObject(own.config) };
  }
  return { isDisabled: item.disabled === true, perRoute: {} };
}

/** The list that applies: of `RateLimitPerRoute`, otherwise of the filter, otherwise those of the route and its host. */
function limitsAt(
  { route, host }: Place,
  config: UncheckedObject,
  perRoute: UncheckedObject,
): { readonly limits: readonly UncheckedObject[]; readonly ownHits: boolean } {
  for (const own of [perRoute, config]) {
    const limits = asObjects(own.rate_limits);
    if (limits.length > 0) return { limits, ownHits: true };
  }
  const action = asObject(route.route);
  const [ofRoute, ofHost] = [asObjects(action.rate_limits), asObjects(host.rate_limits)];
  const option = action.include_vh_rate_limits === true ? 'INCLUDE' : perRoute.vh_rate_limits;
  const includesHost = option === 'INCLUDE' || (option !== 'IGNORE' && ofRoute.length === 0);
  return { limits: includesHost ? [...ofRoute, ...ofHost] : ofRoute, ownHits: false };
}

/** Why the filter does not call for a route whatever its lists are. */
function switchedOff({ route }: Place, config: UncheckedObject, isDisabled: boolean): string | undefined {
  if (isDisabled) return 'the filter is disabled';
  for (const kind of ['direct_response', 'redirect', 'non_forwarding_action', 'filter_action'])
    if (kind in route) return `${kind}: Envoy limits only requests that it forwards`;
  if (isZero(config.filter_enabled)) return 'filter_enabled is 0 %';
  if (config.request_type === 'internal') return 'request_type is internal: requests from outside are not limited';
  return undefined;
}

const isZero = (percent: unknown): boolean =>
  typeof percent === 'object' && Number(asObject(asObject(percent).default_value).numerator ?? 0) === 0;

/** Reads an item of `rate_limits`, whose unknown parts are ignored. */
function readItem(item: UncheckedObject, readers: ReturnType<typeof readersOf>): SentItem {
  const problems = new Problems();
  const block = parseBlock('config_dump', JSON.stringify(item), { problems, compile: compileRegExp });
  if (!block) throw new Error(`expected an item of rate_limits, got ${JSON.stringify(item)}`);
  const read = readLimitItem(block, readers, (own) => readExpression(own, readers));
  return { ...read, actions: JSON.stringify(item.actions) };
}

/** Reads the extension `expr`; the values of other expressions than headers and saved headers are unknown. */
function readExpression(block: MappingBlock, readers: ReturnType<typeof readersOf>) {
  const config = block.block('typed_config');
  const key = config?.text('descriptor_key');
  const text = config?.text('text') ?? '';
  if (key === undefined) return undefined;
  const [, kind, name = ''] = /^(request\.headers|filter_state)\['([^']+)'\]$/.exec(text) ?? [];
  if (kind === 'request.headers') return valueAction(key, readers.header(name), { headers: [name.toLowerCase()] });
  const saved = kind === 'filter_state' ? readers.state(name) : undefined;
  return valueAction(key, (fields) => saved && (requestIn(fields).received.get(saved.header)?.[0] || saved.absent));
}

/** Envoy's timeout if the filter sets none. */
const DEFAULT_TIMEOUT_MS = 20;

function readFilter(config: UncheckedObject): LimitFilter {
  const service = asObject(asObject(config.rate_limit_service).grpc_service);
  const { cluster_name: cluster } = asObject(service.envoy_grpc);
  return {
    domain: String(config.domain ?? ''),
    cluster: typeof cluster === 'string' ? cluster : undefined,
    timeoutMs: durationMs(config.timeout, DEFAULT_TIMEOUT_MS),
    onFailure: onFailure(config),
    isEnforced: config.filter_enforced === undefined || !isZero(config.filter_enforced),
  };
}

function onFailure(config: UncheckedObject): string {
  const percent = config.failure_mode_deny_percent;
  const status = String(asObject(config.status_on_error).code ?? '500');
  const { numerator = 0, denominator = 'HUNDRED' } = asObject(asObject(percent).default_value);
  const setting = percent === undefined ? 'failure_mode_deny' : 'failure_mode_deny_percent';
  const value = percent === undefined ? config.failure_mode_deny === true : `${numerator} of ${denominator}`;
  const isDenying = percent === undefined ? value : Number(numerator) > 0;
  const share = percent === undefined ? 'requests' : 'that share of requests';
  const outcome = isDenying ? `${share} are refused with ${status}` : 'requests pass';
  return `${setting} is ${value}: while Weir is unreachable, ${outcome}`;
}

/** A duration of protobuf; Infinity for 0, which means none. */
function durationMs(duration: unknown, usual: number): number {
  const ms = typeof duration === 'string' ? Math.round(Number.parseFloat(duration) * 1_000) : usual;
  return ms === 0 ? Number.POSITIVE_INFINITY : ms;
}

/** Envoy's timeout for an upstream request if a route sets none. */
const DEFAULT_ROUTE_TIMEOUT_MS = 15_000;

const routeTimeoutMs = ({ route }: UncheckedObject): number => {
  const { timeout } = asObject(route);
  return route === undefined ? 0 : durationMs(timeout, DEFAULT_ROUTE_TIMEOUT_MS);
};

function changeOf(header: string, place: Place): 'removed' | 'changed' | undefined {
  const action = asObject(place.route.route);
  if (header === ':path' && asObject(action.regex_rewrite).pattern !== undefined) return 'changed'; // of some paths
  const value = header === ':path' ? matchedPath(asObject(place.route.match)) : 'any';
  const [after] = changeHeaders(new Map([[header, [value]]]), place).get(header) ?? [];
  if (after === undefined) return 'removed';
  return after === value ? undefined : 'changed';
}

/** Headers after the parts of a place have removed and added some, and rewritten the path and the host. */
function changeHeaders(headers: RequestHeaders, { route, parts }: Place): RequestHeaders {
  const changed = new Map(headers);
  for (const part of parts) {
    for (const name of Array.isArray(part.request_headers_to_remove) ? part.request_headers_to_remove : [])
      changed.delete(String(name).toLowerCase());
    for (const { header, append_action: action = 'APPEND_IF_EXISTS_OR_ADD' } of asObjects(
      part.request_headers_to_add,
    )) {
      const name = String(asObject(header).key).toLowerCase();
      const own = changed.get(name);
      const value = String(asObject(header).value ?? '');
      if (action === 'APPEND_IF_EXISTS_OR_ADD') changed.set(name, [...(own ?? []), value]);
      else if (own ? String(action).startsWith('OVERWRITE') : action !== 'OVERWRITE_IF_EXISTS')
        changed.set(name, [value]);
    }
  }
  rewrite(changed, route);
  return changed;
}

/** Rewrites the path and the host of a request. A value that depends on the request is replaced by the setting's name. */
function rewrite(headers: Map<string, readonly string[]>, { match, route }: UncheckedObject): void {
  const action = asObject(route);
  const [path = ''] = headers.get(':path') ?? [];
  const rewritten = rewritePath(path, asObject(match), action);
  if (rewritten !== path) {
    headers.set('x-envoy-original-path', [path]);
    headers.set(':path', [rewritten]);
  }
  const host = ['host_rewrite_literal', 'auto_host_rewrite', 'host_rewrite_header', 'host_rewrite_path_regex'].find(
    (key) => action[key] !== undefined && action[key] !== false,
  );
  if (host) headers.set(':authority', [host === 'host_rewrite_literal' ? String(action[host]) : host]);
}

const matchedPath = ({ prefix, path, path_separated_prefix: separated }: UncheckedObject): string =>
  String(prefix ?? path ?? separated ?? '/');

function rewritePath(path: string, match: UncheckedObject, action: UncheckedObject): string {
  const { prefix_rewrite: prefix, regex_rewrite: regex, path_rewrite_policy: policy, path_rewrite: format } = action;
  const matched = matchedPath(match);
  if (typeof prefix === 'string' && prefix !== '' && path.startsWith(matched))
    return prefix + path.slice(matched.length);
  if (policy !== undefined || format !== undefined) return 'path_rewrite';
  const { pattern, substitution } = asObject(regex);
  if (pattern === undefined) return path;
  const [, own = '', query = ''] = /^([^?]*)(.*)$/s.exec(path) ?? [];
  const replacement = String(substitution ?? '')
    .replaceAll('$', '$$$$')
    .replace(/\\(\d)/g, '$$$1');
  return own.replace(new RegExp(String(asObject(pattern).regex), 'g'), replacement) + query;
}
