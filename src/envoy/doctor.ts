import { nearestOf } from '../rules/nearest-of.ts';
import type { RuleTree } from '../rules/tree.ts';
import { canMatch, type DescriptorShape, expectedShapes, shortestTtlMs } from './shapes.ts';

/** What the doctor says of a live Envoy. */
export interface Finding {
  readonly isWrong: boolean;
  readonly text: string;
}

export interface Patient {
  /** `/config_dump` of Envoy's admin interface. */
  readonly configDump: unknown;
  /** `/clusters?format=json`. */
  readonly clusters: unknown;
}

export interface Expectations {
  readonly rules: RuleTree;
  /** The longest that Weir's store may take. */
  readonly storeTimeoutMs: number;
}

/** What Envoy waits where the filter does not say. */
const DEFAULT_TIMEOUT_MS = 20;

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Examines a live Envoy against the rules: domains, descriptors, clusters, timeouts, and what becomes of requests while
 * Weir cannot be asked.
 */
export function examine(
  { configDump, clusters }: Patient,
  { rules, storeTimeoutMs }: Expectations,
): readonly Finding[] {
  const filters = [...filtersIn(configDump)];
  if (filters.length === 0) return [wrong('Envoy has no rate limit filter: it requests no decisions')];
  const shapes = unique([...shapesIn(configDump)]);
  const findings: Finding[] = [];
  for (const filter of unique(filters)) findings.push(...examineFilter(filter, rules, storeTimeoutMs, clusters));
  const domains = unique(filters.map(({ domain }) => domain).filter((domain) => rules.domains.has(domain)));
  if (shapes.length === 0)
    findings.push(wrong('no route has rate_limits: Envoy sends no descriptors, and requests no decisions'));
  for (const shape of shapes)
    for (const domain of domains) {
      const text = `domain ${domain}: ${textOf(shape)}`;
      findings.push(
        canMatch(rules, domain, shape)
          ? right(`${text} can meet a rule`)
          : wrong(`${text} matches nothing${hint(rules, domain, shape)}`),
      );
    }
  for (const domain of domains) findings.push(...examineSlots(configDump, rules, domain));
  return findings;
}

/** Slots must be given back, and be held longer than requests last. */
function examineSlots(configDump: unknown, rules: RuleTree, domain: string): readonly Finding[] {
  const ttlMs = shortestTtlMs(rules, domain);
  if (ttlMs === undefined) return [];
  const longest = Math.max(...routeTimeoutsIn(configDump));
  const released = unique([...releasesIn(configDump)].map((shape) => textOf(shape)));
  const unreleased = expectedShapes(rules, domain).slots.filter((shape) => !released.includes(textOf(shape)));
  return [
    longest < ttlMs
      ? right(`domain ${domain}: routes end requests after ${longest} ms at most, slots after ${ttlMs} ms (ttl)`)
      : wrong(
          `domain ${domain}: a route ends requests after ${Number.isFinite(longest) ? `${longest} ms` : 'any time'}, and a slot is free after ${ttlMs} ms (ttl): a request that lasts longer runs without a slot`,
        ),
    ...unreleased.map((shape) =>
      wrong(
        `domain ${domain}: no route sends ${textOf(shape)} when streams end (apply_on_stream_done with is_negative_hits): slots are free only after ${ttlMs} ms (ttl)`,
      ),
    ),
  ];
}

interface Filter {
  readonly domain: string;
  readonly cluster: string | undefined;
  readonly timeoutMs: number;
  readonly denies: boolean;
}

function examineFilter(
  { domain, cluster, timeoutMs, denies }: Filter,
  rules: RuleTree,
  storeTimeoutMs: number,
  clusters: unknown,
): readonly Finding[] {
  const near = nearestOf(domain, rules.domains.keys(), (name) => name, 1)[0];
  const delays = (rules.domains.has(domain) ? rules.rules.filter((rule) => rule.domain === domain) : []).flatMap(
    ({ limits }) => limits.flatMap(({ limit }) => ('maxDelayMs' in limit ? [limit.maxDelayMs] : [])),
  );
  const longestMs = Math.max(0, ...delays) + storeTimeoutMs;
  return [
    rules.domains.has(domain)
      ? right(`domain ${domain} has rules`)
      : wrong(
          `domain ${domain} has no rules: every request passes${near === undefined ? '' : `; the nearest is ${near}`}`,
        ),
    ...(cluster === undefined ? [] : [examineCluster(cluster, clusters)]),
    timeoutMs > longestMs
      ? right(
          `domain ${domain}: Envoy waits ${timeoutMs} ms, longer than ${longestMs} ms (STORE_TIMEOUT and the longest max_delay)`,
        )
      : wrong(
          `domain ${domain}: Envoy waits ${timeoutMs} ms, and Weir may take ${longestMs} ms (STORE_TIMEOUT and the longest max_delay): set the filter's timeout above that`,
        ),
    right(
      `domain ${domain}: failure_mode_deny is ${denies}: while Weir cannot be asked, requests ${denies ? 'are refused with 500' : 'pass'}; a limit's on_store_failure decides while only its counters cannot be reached`,
    ),
  ];
}

function examineCluster(name: string, clusters: unknown): Finding {
  const status = listOf(objectOf(clusters).cluster_statuses).find((one) => one.name === name);
  if (!status) return wrong(`cluster ${name} does not exist: Envoy cannot ask Weir`);
  const hosts = listOf(status.host_statuses);
  if (hosts.length === 0) return wrong(`cluster ${name} has no hosts: Envoy cannot ask Weir`);
  const unreachable = hosts.filter((host) => {
    const { failed_active_health_check: failedCheck, failed_outlier_check: failedOutlier } = objectOf(
      host.health_status,
    );
    const stats = new Map(listOf(host.stats).map((one) => [String(one.name), Number(one.value ?? 0)]));
    const isRefused = (stats.get('cx_connect_fail') ?? 0) > 0 && (stats.get('cx_active') ?? 0) === 0;
    return failedCheck === true || failedOutlier === true || isRefused;
  });
  return unreachable.length > 0
    ? wrong(`cluster ${name}: ${unreachable.length} of ${hosts.length} hosts cannot be reached`)
    : right(`cluster ${name} has ${hosts.length} hosts`);
}

const right = (text: string): Finding => ({ isWrong: false, text });
const wrong = (text: string): Finding => ({ isWrong: true, text });

const textOf = (shape: DescriptorShape): string =>
  shape.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join(',');

function hint(rules: RuleTree, domain: string, shape: DescriptorShape): string {
  const [first] = shape;
  const keys = rules.domains.get(domain)?.root.byKey.keys() ?? [];
  const near = first && nearestOf(first.key, keys, (key) => key, 1)[0];
  return near === undefined || near === first?.key ? '' : `; the nearest key is ${near}`;
}

const unique = <T>(items: readonly T[]): readonly T[] => [
  ...new Map(items.map((item) => [JSON.stringify(item), item])).values(),
];

const FILTER_TYPE = /\bratelimit\.v3\.RateLimit$/;

/** Filters of HTTP and of plain TCP, wherever they stand in the dump. */
function* filtersIn(dump: unknown): Iterable<Filter> {
  for (const found of objectsIn(dump)) {
    if (typeof found['@type'] !== 'string' || !FILTER_TYPE.test(found['@type'])) continue;
    const service = objectOf(objectOf(found.rate_limit_service).grpc_service);
    const { cluster_name: cluster } = objectOf(service.envoy_grpc);
    yield {
      domain: String(found.domain ?? ''),
      cluster: typeof cluster === 'string' ? cluster : undefined,
      timeoutMs: typeof found.timeout === 'string' ? Number.parseFloat(found.timeout) * 1_000 : DEFAULT_TIMEOUT_MS,
      denies: found.failure_mode_deny === true,
    };
  }
}

/** What Envoy waits for an upstream where a route does not say. */
const DEFAULT_ROUTE_TIMEOUT_MS = 15_000;

/** Of all routes to clusters; infinite: without one. */
function* routeTimeoutsIn(dump: unknown): Iterable<number> {
  for (const { match, route } of objectsIn(dump)) {
    if (match === undefined || route === undefined) continue;
    const { timeout } = objectOf(route);
    const timeoutMs = typeof timeout === 'string' ? Number.parseFloat(timeout) * 1_000 : DEFAULT_ROUTE_TIMEOUT_MS;
    yield timeoutMs === 0 ? Number.POSITIVE_INFINITY : timeoutMs;
  }
}

/** Descriptors that are sent when streams end, and give hits back. */
function* releasesIn(dump: unknown): Iterable<DescriptorShape> {
  for (const found of objectsIn(dump))
    for (const limit of listOf(found.rate_limits))
      if (limit.apply_on_stream_done === true && objectOf(limit.hits_addend).is_negative_hits === true)
        yield listOf(limit.actions).flatMap((action) => entryOf(action));
}

/** What `rate_limits` of routes and virtual hosts make. */
function* shapesIn(dump: unknown): Iterable<DescriptorShape> {
  for (const found of objectsIn(dump)) {
    for (const limit of [
      ...listOf(found.rate_limits),
      ...(found['@type'] === undefined ? [] : listOf(found.rate_limits_per_route)),
    ]) {
      const shape = listOf(limit.actions).flatMap((action) => entryOf(action));
      if (shape.length > 0) yield shape;
    }
  }
}

const keyOfAction: Readonly<Record<string, string>> = {
  remote_address: 'remote_address',
  masked_remote_address: 'masked_remote_address',
  source_cluster: 'source_cluster',
  destination_cluster: 'destination_cluster',
  header_value_match: 'header_match',
  query_parameter_value_match: 'query_match',
  generic_key: 'generic_key',
};

function entryOf(action: JsonObject): DescriptorShape {
  const [kind] = Object.keys(action);
  if (kind === undefined) return [];
  const { descriptor_key: key, descriptor_value: value } = objectOf(action[kind]);
  const name = typeof key === 'string' && key !== '' ? key : keyOfAction[kind];
  if (name === undefined) return []; // made by an extension, which says nothing here
  const isConstant = kind !== 'request_headers' && typeof value === 'string' && !value.includes('%');
  return [{ key: name, value: isConstant ? value : undefined }];
}

/** Every object in a value, however deep. */
function* objectsIn(value: unknown): Iterable<JsonObject> {
  const waiting = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (Array.isArray(next)) for (const item of next) waiting.push(item);
    else if (typeof next === 'object' && next !== null) {
      yield next as JsonObject; // whatever its fields hold
      for (const item of Object.values(next)) waiting.push(item);
    }
  }
}

const objectOf = (value: unknown): JsonObject =>
  typeof value === 'object' && value !== null ? (value as JsonObject) : {};
const listOf = (value: unknown): readonly JsonObject[] => (Array.isArray(value) ? value.map(objectOf) : []);
