import { connect, type Socket } from 'node:net';
import { NearestTexts } from '../../base/nearest.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Requirement } from '../../engine/rules/read/node-source.ts';
import { missingName } from '../../engine/rules/read/requirement.ts';
import { examineAddresses } from './client-address.ts';
import {
  asObject,
  asObjects,
  check,
  type Finding,
  isTyped,
  objectsIn,
  right,
  type UncheckedObject,
  wrong,
} from './dump.ts';
import { canMatch, type DescriptorShape, expectedShapes, minTtlMs, servesRequirement } from './shapes.ts';
import { HEALTH_CHECKS } from './whole-envoy.ts';

interface EnvoyDumps {
  /** `/config_dump` of Envoy's admin interface. */
  readonly configDump: unknown;
  /** `/clusters?format=json`. */
  readonly clusters: unknown;
  readonly probe: HostProbe;
}

/** Envoy's timeout if the filter sets none. */
const DEFAULT_TIMEOUT_MS = 20;

/**
 * Compares a live Envoy with the rules, including domains, descriptors, clusters, timeouts, and the handling of
 * requests while Weir does not answer.
 */
export async function examine(
  { configDump, clusters: clusterDump, probe }: EnvoyDumps,
  rules: RuleTree,
): Promise<readonly Finding[]> {
  const filters = [...filtersIn(configDump)];
  if (filters.length === 0)
    return [wrong('Envoy has no rate limit filter, so it requests no decisions: add one with weir envoy')];
  const shapes = unique([...shapesIn(configDump)]);
  const findings: Finding[] = [];
  for (const filter of unique(filters)) findings.push(...examineFilter(filter, rules));
  const clusters = unique(filters.flatMap(({ cluster }) => cluster ?? []));
  for (const cluster of clusters) {
    findings.push(await examineCluster(cluster, clusterDump, probe));
    findings.push(...examineHealthChecks(cluster, configDump));
  }
  const domains = unique(filters.map(({ domain }) => domain).filter((domain) => rules.domains.has(domain)));
  if (shapes.length === 0)
    findings.push(wrong('no route has rate_limits, so Envoy sends no descriptors and requests no decisions'));
  for (const shape of shapes) for (const domain of domains) findings.push(examineShape(shape, rules, domain));
  for (const domain of domains) findings.push(...examineSlots(configDump, rules, domain));
  for (const domain of domains) findings.push(...examineRequirements(configDump, rules, domain));
  findings.push(...examineAddresses(configDump));
  return findings;
}

function examineShape(shape: DescriptorShape, rules: RuleTree, domain: string): Finding {
  const text = `domain ${domain}: ${shapeText(shape)}`;
  if (canMatch(rules, domain, shape)) return right(`${text} can match a rule`);
  if (servesRequirement(rules, domain, shape)) return right(`${text} matches no rule, but require needs it`);
  return wrong(`${text} matches no rule${hint(rules, domain, shape)}`);
}

/** Checks that requests without required keys cause calls as well. */
function examineRequirements(configDump: unknown, rules: RuleTree, domain: string): readonly Finding[] {
  const { requirements = [] } = rules.domains.get(domain) ?? {};
  const lists = unique([...listsIn(configDump)]); // a dump has some of them several times
  if (requirements.length === 0 || lists.length === 0) return [];
  const silent = lists.filter((limits) => !limits.some(isUnconditional)).length;
  if (silent === 0) return [right(`domain ${domain}: every request has a descriptor, so require takes effect`)];
  const [{ keys }] = requirements as [Requirement]; // not empty
  const which = lists.length === 1 ? 'rate_limits' : `${silent} of ${lists.length} rate_limits`;
  return [
    wrong(
      `domain ${domain}: ${which} may send no descriptor for a request, and Envoy then does not call Weir, though the rules require ${missingName({ keys })}: add - actions: [{ generic_key: { descriptor_value: every_request } }]`,
    ),
  ];
}

/** Checks that slots are released, and last longer than requests. */
function examineSlots(configDump: unknown, rules: RuleTree, domain: string): readonly Finding[] {
  const ttlMs = minTtlMs(rules, domain);
  if (ttlMs === undefined) return [];
  const longest = Math.max(...routeTimeoutsIn(configDump));
  const released = unique(releasesIn(configDump).map(shapeText));
  const unreleased = expectedShapes(rules, domain).slots.filter((shape) => !released.includes(shapeText(shape)));
  return [
    longest < ttlMs
      ? right(`domain ${domain}: routes time out after at most ${longest} ms, slots expire after ${ttlMs} ms (ttl)`)
      : wrong(
          `domain ${domain}: a route ${Number.isFinite(longest) ? `times out after ${longest} ms` : 'has no timeout'}, but a slot expires after ${ttlMs} ms (ttl): a longer request runs without a slot`,
        ),
    ...unreleased.map((shape) =>
      wrong(
        `domain ${domain}: no route sends ${shapeText(shape)} when streams end (apply_on_stream_done with is_negative_hits): slots are released only after ${ttlMs} ms (ttl)`,
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

function examineFilter({ domain, timeoutMs, denies }: Filter, rules: RuleTree): readonly Finding[] {
  const near = new NearestTexts().find(domain, rules.domains.keys(), (name) => name, 1)[0];
  const delays = (rules.domains.has(domain) ? [...rules.rules].filter((rule) => rule.domain === domain) : []).flatMap(
    ({ limits }) => limits.flatMap(({ limit }) => ('maxDelayMs' in limit ? [limit.maxDelayMs] : [])),
  );
  const longestMs = Math.max(0, ...delays);
  return [
    rules.domains.has(domain)
      ? right(`domain ${domain} has rules`)
      : wrong(
          `domain ${domain} has no rules: every request passes${near === undefined ? '' : `; the nearest is ${near}`}`,
        ),
    timeoutMs > longestMs
      ? right(`domain ${domain}: Envoy waits ${timeoutMs} ms, longer than the longest max_delay (${longestMs} ms)`)
      : wrong(
          `domain ${domain}: Envoy waits ${timeoutMs} ms, but Weir may hold requests for ${longestMs} ms (the longest max_delay): set the filter's timeout above that`,
        ),
    right(
      `domain ${domain}: failure_mode_deny is ${denies}: while Weir is unreachable, requests ${denies ? 'are refused with 500' : 'pass'}; if only the counters are unreachable, on_store_failure decides`,
    ),
  ];
}

const shapeText = (shape: DescriptorShape): string =>
  shape.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join(',');

function hint(rules: RuleTree, domain: string, shape: DescriptorShape): string {
  const [first] = shape;
  const keys = rules.domains.get(domain)?.root.byKey.keys() ?? [];
  const near = first && new NearestTexts().find(first.key, keys, (key) => key, 1)[0];
  return near === undefined || near === first?.key ? '' : `; the nearest key is ${near}`;
}

const unique = <T>(items: readonly T[]): readonly T[] => [
  ...new Map(items.map((item) => [JSON.stringify(item), item])).values(),
];

/** The filters for HTTP and for plain TCP, anywhere in the dump. */
function* filtersIn(dump: unknown): Iterable<Filter> {
  for (const found of objectsIn(dump)) {
    if (!isTyped(found, 'ratelimit.v3.RateLimit')) continue;
    const service = asObject(asObject(found.rate_limit_service).grpc_service);
    const { cluster_name: cluster } = asObject(service.envoy_grpc);
    yield {
      domain: String(found.domain ?? ''),
      cluster: typeof cluster === 'string' ? cluster : undefined,
      timeoutMs: typeof found.timeout === 'string' ? Number.parseFloat(found.timeout) * 1_000 : DEFAULT_TIMEOUT_MS,
      denies: found.failure_mode_deny === true,
    };
  }
}

/** Envoy's timeout for an upstream request if a route sets none. */
const DEFAULT_ROUTE_TIMEOUT_MS = 15_000;

/** The timeouts of all routes to clusters; Infinity for a route without a timeout. */
function* routeTimeoutsIn(dump: unknown): Iterable<number> {
  for (const { match, route } of objectsIn(dump)) {
    if (match === undefined || route === undefined) continue;
    const { timeout } = asObject(route);
    const timeoutMs = typeof timeout === 'string' ? Number.parseFloat(timeout) * 1_000 : DEFAULT_ROUTE_TIMEOUT_MS;
    yield timeoutMs === 0 ? Number.POSITIVE_INFINITY : timeoutMs;
  }
}

/** Descriptors that are sent when streams end, and that refund hits. */
const releasesIn = (dump: unknown): readonly DescriptorShape[] =>
  [...listsIn(dump)].flat().flatMap((limit) => {
    const isRelease = limit.apply_on_stream_done === true && asObject(limit.hits_addend).is_negative_hits === true;
    return isRelease ? [readShape(limit)] : [];
  });

/** The lists of rate limits of routes, virtual hosts and their filter configurations. */
function* listsIn(dump: unknown): Iterable<readonly UncheckedObject[]> {
  for (const found of objectsIn(dump)) {
    const limits = asObjects(found.rate_limits);
    if (limits.length > 0) yield limits;
  }
}

/** Whether a descriptor is sent for each request, before it is routed. */
function isUnconditional({ actions, apply_on_stream_done: isLate }: UncheckedObject): boolean {
  const all = asObjects(actions);
  const isSkipped = (action: UncheckedObject): boolean =>
    asObject(action.request_headers).skip_if_absent === true ||
    asObject(action.query_parameters).skip_if_absent === true;
  const areAlwaysThere = all.every(
    (action) => Object.keys(action).some((kind) => always.has(kind)) || isSkipped(action),
  );
  return isLate !== true && areAlwaysThere && !all.every(isSkipped);
}

/** Actions that add an entry to the descriptor of every request. */
const always: ReadonlySet<string> = new Set([
  'generic_key',
  'remote_address',
  'masked_remote_address',
  'source_cluster',
  'destination_cluster',
]);

/** The descriptors that `rate_limits` of routes and virtual hosts produce. */
function* shapesIn(dump: unknown): Iterable<DescriptorShape> {
  for (const found of objectsIn(dump)) {
    const perRoute = found['@type'] === undefined ? [] : asObjects(found.rate_limits_per_route);
    for (const limit of [...asObjects(found.rate_limits), ...perRoute]) {
      const shape = readShape(limit);
      if (shape.length > 0) yield shape;
    }
  }
}

const readShape = ({ actions }: UncheckedObject): DescriptorShape => asObjects(actions).flatMap(parseEntry);

const keyOfAction: Readonly<Record<string, string>> = {
  remote_address: 'remote_address',
  masked_remote_address: 'masked_remote_address',
  source_cluster: 'source_cluster',
  destination_cluster: 'destination_cluster',
  header_value_match: 'header_match',
  query_parameter_value_match: 'query_match',
  generic_key: 'generic_key',
};

function parseEntry(action: UncheckedObject): DescriptorShape {
  const [kind] = Object.keys(action);
  if (kind === undefined) return [];
  const { descriptor_key: key, descriptor_value: value } = asObject(action[kind]);
  const name = typeof key === 'string' && key !== '' ? key : keyOfAction[kind];
  if (name === undefined) return []; // added by an extension; its entries are unknown
  const isConstant = kind !== 'request_headers' && typeof value === 'string' && !value.includes('%');
  return [{ key: name, value: isConstant ? value : undefined }];
}

/** A host's address, in the form that `net.connect` accepts. */
type HostAddress = { readonly host: string; readonly port: number } | { readonly path: string };

/** Connects to a host from this machine. @returns the reason why the host cannot be reached */
type HostProbe = (address: HostAddress) => Promise<string | undefined>;

/** Maximum number of hosts that are probed from this machine, and that a finding names. */
const MAX_PROBED = 20;
const MAX_NAMED = 5;

/**
 * Reports whether Envoy can reach a cluster, from Envoy's counters or, if these are inconclusive, by connecting to the
 * hosts.
 *
 * @param clusters  `/clusters?format=json` of Envoy's admin interface
 */
export async function examineCluster(name: string, clusters: unknown, probe: HostProbe): Promise<Finding> {
  const status = asObjects(asObject(clusters).cluster_statuses).find((one) => one.name === name);
  if (!status) return wrong(`cluster ${name} does not exist, so Envoy cannot call Weir`);
  const hosts = asObjects(status.host_statuses).map(parseHost);
  if (hosts.length === 0) return wrong(`cluster ${name} has no hosts, so Envoy cannot call Weir`);
  const probed = new Map<Host, string | undefined>();
  const unclear = hosts.filter(isUnclear);
  const reachable = unclear.flatMap((host) => (host.address ? [{ host, address: host.address }] : []));
  await Promise.all(
    reachable.slice(0, MAX_PROBED).map(async ({ host, address }) => void probed.set(host, await probe(address))),
  );
  const all = hosts.length === 1 ? '1 host' : `${hosts.length} hosts`;
  const failures = hosts.flatMap((host) => {
    const why = whyUnreachable(host, probed.get(host));
    return why === undefined ? [] : [`${host.name} (${why})`];
  });
  const unknown = unclear.filter((host) => !probed.has(host) && whyUnreachable(host, undefined) === undefined).length;
  const note =
    unknown === 0
      ? ''
      : `; unknown for ${unknown}: Envoy's counters do not show it, and no connection was tried from here`;
  if (failures.length > 0)
    return wrong(`cluster ${name}: ${failures.length} of ${all} cannot be reached: ${listed(failures)}${note}`);
  const untried = [...probed.keys()].filter(({ connections }) => connections === 0);
  if (untried.length === 0) return right(`cluster ${name} has ${all}${note}`);
  const names = listed(untried.map((host) => host.name));
  return right(
    `cluster ${name} has ${all}; Envoy has not connected to ${names} yet, but ${untried.length === 1 ? 'it' : 'they'} can be reached from here${note}`,
  );
}

/** Checks that Envoy stops calling instances that are dead or shut down. */
function examineHealthChecks(name: string, configDump: unknown): readonly Finding[] {
  const cluster = [...objectsIn(configDump)].find((one) => isTyped(one, 'cluster.v3.Cluster') && one.name === name);
  const isChecked = (one: UncheckedObject): boolean => asObject(one.grpc_health_check).service_name === 'ratelimit';
  if (!cluster || asObjects(cluster.health_checks).some(isChecked)) return [];
  return [
    check(
      `cluster ${name} has no grpc_health_check of ratelimit: Envoy goes on calling a dead instance, and gets no decision, until its host is removed from the cluster; add ${HEALTH_CHECKS.join(' and ')}`,
    ),
  ];
}

interface Host {
  /** `host:port`, or the path of a socket. */
  readonly name: string;
  /** Address; undefined if it is internal to Envoy. */
  readonly address: HostAddress | undefined;
  readonly isUnhealthy: boolean;
  /** Connections that Envoy has started since it discovered the host. */
  readonly connections: number;
  /** Connections that could not be established. */
  readonly failed: number;
  readonly open: number;
  /** Requests that have ended. */
  readonly requests: number;
  readonly answered: number;
}

function parseHost(status: UncheckedObject): Host {
  const health = asObject(status.health_status);
  const stats = new Map(asObjects(status.stats).map((one) => [String(one.name), Number(one.value ?? 0)]));
  const count = (name: string): number => stats.get(name) ?? 0;
  return {
    ...parseAddress(asObject(status.address)),
    isUnhealthy: health.failed_active_health_check === true || health.failed_outlier_check === true,
    connections: count('cx_total'),
    failed: count('cx_connect_fail'),
    open: count('cx_active'),
    requests: count('rq_total') - count('rq_active'),
    answered: count('rq_success'),
  };
}

function parseAddress({ socket_address, pipe }: UncheckedObject): Pick<Host, 'name' | 'address'> {
  const { address: host, port_value: port } = asObject(socket_address);
  if (typeof host === 'string' && typeof port === 'number')
    return { name: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`, address: { host, port } };
  const { path } = asObject(pipe);
  return typeof path === 'string' ? { name: path, address: { path } } : { name: 'a host', address: undefined };
}

/** Whether Envoy's counters leave open if the host can be reached now. */
const isUnclear = (host: Host): boolean =>
  host.connections === 0 || (host.failed > 0 && host.failed < host.connections && host.open === 0);

function whyUnreachable(host: Host, fromHere: string | undefined): string | undefined {
  const { isUnhealthy, connections, failed, requests, answered } = host;
  if (isUnhealthy) return "Envoy's health checks fail";
  if (fromHere !== undefined && connections === 0)
    return `${fromHere} from here; Envoy has not tried to connect yet: send it a request and run this again`;
  if (fromHere !== undefined)
    return `${fromHere} from here; Envoy has no connection to it now, and ${failed} of its ${connections} failed`;
  if (connections > 0 && failed >= connections)
    return failed === 1 ? "Envoy's only connection failed" : `all ${failed} connections from Envoy failed`;
  return requests > 0 && answered === 0
    ? `connects, but answered none of ${requests} requests: is this Weir's gRPC port?`
    : undefined;
}

function listed(items: readonly string[]): string {
  const more = items.length - MAX_NAMED;
  return items.slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

const TIMEOUT_MS = 2_000;

/** Connects to an address, then closes the connection. @returns the reason why the address cannot be reached */
export const probeAddress = (address: HostAddress): Promise<string | undefined> =>
  new Promise((resolve) => {
    let socket: Socket;
    try {
      socket = connect(address);
    } catch (error) {
      resolve(error instanceof Error ? error.message : String(error)); // a path that is too long, a port out of range
      return;
    }
    socket.setTimeout(TIMEOUT_MS);
    socket.once('connect', () => resolve(undefined));
    socket.once('timeout', () => resolve(`no connection in ${TIMEOUT_MS / 1_000} s`));
    socket.once('error', (error) => resolve(error.message));
    for (const event of ['connect', 'timeout'] as const) socket.once(event, () => socket.destroy());
  });
