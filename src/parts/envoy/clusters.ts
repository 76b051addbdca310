import { connect, type Socket } from 'node:net';
import {
  asObject,
  asObjects,
  check,
  type Finding,
  isTyped,
  listedTexts,
  objectsIn,
  right,
  type UncheckedObject,
  wrong,
} from './dump.ts';
import { HEALTH_CHECKS } from './whole-envoy.ts';

/** A host's address, in the form that `net.connect` accepts. */
type HostAddress = { readonly host: string; readonly port: number } | { readonly path: string };

/** Connects to a host from this machine. @returns the reason why the host cannot be reached */
export type HostProbe = (address: HostAddress) => Promise<string | undefined>;

/** Maximum number of hosts that are probed from this machine. */
const MAX_PROBED = 20;

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
    return wrong(`cluster ${name}: ${failures.length} of ${all} cannot be reached: ${listedTexts(failures)}${note}`);
  const untried = [...probed.keys()].filter(({ connections }) => connections === 0);
  if (untried.length === 0) return right(`cluster ${name} has ${all}${note}`);
  const names = listedTexts(untried.map((host) => host.name));
  return right(
    `cluster ${name} has ${all}; Envoy has not connected to ${names} yet, but ${untried.length === 1 ? 'it' : 'they'} can be reached from here${note}`,
  );
}

/** Checks that Envoy stops calling instances that are dead or shut down. */
export function examineHealthChecks(name: string, configDump: unknown): readonly Finding[] {
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
