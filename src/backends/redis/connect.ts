import type { ConnectionOptions } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { type ClientTls, tlsOptions } from '../tls.ts';
import type { Credentials, RedisAddress } from './address.ts';
import { isReadOnly } from './reason.ts';

/** A connection to one server, or to all nodes of a Cluster. */
export type RedisConnection = Redis | Cluster;

/** What a connection is besides an address. */
export interface RedisConnectOptions {
  readonly address: RedisAddress;
  /** Undefined: plain text, unless the address itself says otherwise. */
  readonly tls: ClientTls | undefined;
  /** Credentials for the sentinels. */
  readonly sentinelCredentials: Credentials;
  /** The longest that connecting may take. */
  readonly connectTimeoutMs: number;
  /** Until the first connection: the first wait, and the longest; each is twice the one before. */
  readonly startup: { readonly initialMs: number; readonly maxMs: number };
  /** Takes each new reason why changed files of `tls` cannot be used. */
  readonly onTlsProblem?: (problem: string) => void;
}

/**
 * The longest wait between two attempts to connect anew. With the time of an attempt it comes to less than a second.
 */
const MAX_RETRY_MS = 300;
/**
 * The shortest time that an attempt to connect anew is given: packets that were lost with the network are not sent
 * again for a second.
 */
const MIN_CONNECT_MS = 500;
/** An attempt is given so many times what the slowest connection so far took, as far as `connectTimeoutMs` lets it. */
const CONNECT_MARGIN = 4;

/** A connection that leaves a call unanswered for so long is given up, with all that waits on it, and opened anew. */
const SILENCE_MS = 1_000;

/**
 * Opens a connection that reconnects by itself, for ever, and says at once when it cannot be used.
 *
 * A counting call must not run twice: ioredis neither queues commands while there is no connection nor sends again what
 * was in flight when one broke. On a Cluster, what a node refused before it ran (MOVED, ASK, TRYAGAIN) is sent again.
 *
 * @throws Error  of the file system, when a file of `tls` cannot be read
 */
export function connect(options: RedisConnectOptions): RedisConnection {
  let wasReady = false;
  const retryStrategy = (attempt: number): number =>
    withJitter(
      wasReady
        ? Math.min(50 * 2 ** Math.min(attempt, 5), MAX_RETRY_MS)
        : Math.min(options.startup.initialMs * 2 ** Math.min(attempt - 1, 30), options.startup.maxMs),
    );
  const redis = open(options, retryStrategy);
  redis.once('ready', () => {
    wasReady = true;
  });
  hurryReconnects(redis, options.connectTimeoutMs);
  return redis;
}

/**
 * After the first connection, attempts that take much longer than connecting took before are given up and made anew. On
 * a Cluster the first one to any node counts: a node that is lost gets a client of its own for each attempt.
 */
export function hurryReconnects(connection: RedisConnection, connectTimeoutMs: number): void {
  let slowestMs: number | undefined;
  const hurry = ({ options }: Redis): void => {
    if (slowestMs === undefined) return;
    options.connectTimeout = Math.min(Math.max(CONNECT_MARGIN * slowestMs, MIN_CONNECT_MS), connectTimeoutMs);
  };
  const watch = (redis: Redis): void => {
    let startedMs = performance.now();
    hurry(redis);
    redis.on('connecting', () => {
      startedMs = performance.now();
    });
    redis.on('connect', () => {
      slowestMs = Math.max(slowestMs ?? 0, performance.now() - startedMs);
      hurry(redis);
    });
  };
  if (connection instanceof Redis) watch(connection);
  else connection.on('+node', watch);
}

/** Up to a tenth more, so that a fleet does not come at once. */
const withJitter = (ms: number): number => ms + Math.floor(Math.random() * ms * 0.1);

type RetryStrategy = (attempt: number) => number;

function open(options: RedisConnectOptions, retryStrategy: RetryStrategy): RedisConnection {
  const { address } = options;
  const common = commonOptions(options);
  const own = { ...common, enableOfflineQueue: false, retryStrategy };
  switch (address.kind) {
    case 'unix':
      return new Redis(address.path, { ...own, db: address.database });
    case 'tcp': {
      const { host, port, database: db } = address;
      return new Redis(port, host, { ...own, db });
    }
    case 'sentinel': {
      const sentinels = { sentinels: [...address.sentinels], name: address.master, failoverDetector: true };
      const redis = new Redis({
        ...{ ...sentinels, ...sentinelOptions(options, common.tls), ...own },
        sentinelRetryStrategy: retryStrategy,
      });
      mendSentinelClient(redis);
      return redis;
    }
    case 'cluster': {
      const cluster = new Cluster([...address.nodes], {
        enableOfflineQueue: false,
        clusterRetryStrategy: retryStrategy,
        retryDelayOnFailover: 0, // else it would send again what may have run
        ...{ maxRedirections: MAX_REDIRECTIONS, retryDelayOnTryAgain: 1 },
        retryDelayOnClusterDown: 0, // reported at once, instead of after the caller has given up
        redisOptions: common,
        dnsLookup: (host, done) => done(null, host), // each connection resolves it, and certificates name hosts
      });
      connectEachNode(cluster);
      return cluster;
    }
  }
}

/**
 * To where a slot is now, and to the other node of one that is moving. What no node can answer then (TRYAGAIN: half the
 * counters of a call have moved) fails within a few milliseconds, while its caller is there.
 */
const MAX_REDIRECTIONS = 4;

/** Else a node is connected to for its first command, and those that come meanwhile are refused. */
function connectEachNode(cluster: Cluster): void {
  const connectTo = (node: Redis): void => {
    if (node.status === 'wait') node.connect().catch(() => {}); // reported as an error of the Cluster
  };
  cluster.on('ready', () => cluster.nodes().forEach(connectTo));
  cluster.on('+node', (node: Redis) => {
    if (cluster.status === 'ready') connectTo(node); // earlier, the Cluster itself asks one of them how it is
  });
}

/**
 * Works around three defects of ioredis behind sentinels: it writes errors of sentinels to stderr, it leaves a master
 * that it has just found, and it never reconnects after a failover that is announced during a connection attempt.
 */
export function mendSentinelClient(redis: Redis): void {
  mendListeners(redis);
  outliveFailovers(redis);
}

/**
 * It listens to every sentinel for failovers, and disconnects at each. One that is away needs no line on stderr: the
 * next one is asked. A failover of another master, or to the master that it is connected to, is no reason to
 * disconnect: sentinels name a new master before they announce it, when its other replicas have followed.
 */
function mendListeners(redis: Redis): void {
  // private in the types; one of sentinels, as asked for
  const { connector } = redis as unknown as { connector: SentinelConnections };
  const connect = connector.connectToSentinel.bind(connector);
  connector.connectToSentinel = (...args) => {
    const sentinel = connect(...args).on('error', () => {});
    const emit = sentinel.emit.bind(sentinel);
    sentinel.emit = (event, ...values) => {
      const isForOthers = event === 'message' && !concerns(redis, String(values[1]));
      return !isForOthers && emit(event, ...values);
    };
    return sentinel;
  };
}

/** @param announcement  of `+switch-master`: the master's name, its old host and port, the new ones */
function concerns({ options, stream }: Redis, announcement: string): boolean {
  const [name, , , host, port] = announcement.split(' ');
  const isThere = stream?.remoteAddress === host && stream?.remotePort === Number(port);
  return name === options.name && !isThere;
}

/**
 * ioredis treats an attempt that a failover interrupted as closed for good. Reconnects unless `disconnect()` was
 * called.
 */
function outliveFailovers(redis: Redis): void {
  let isClosed = false;
  const disconnect = redis.disconnect.bind(redis);
  redis.disconnect = (reconnect = false) => {
    isClosed ||= !reconnect;
    disconnect(reconnect);
  };
  redis.on('end', () => {
    if (!isClosed) redis.connect().catch(() => {}); // reported as an error of the connection
  });
}

interface SentinelConnections {
  connectToSentinel(...args: readonly unknown[]): Redis;
}

const NO_FILES: ClientTls = { caFile: '', certFile: '', keyFile: '', skipHostnameVerification: false };

function commonOptions({ address, tls: files, connectTimeoutMs, onTlsProblem }: RedisConnectOptions) {
  const tls = files ?? ('tls' in address && address.tls ? NO_FILES : undefined);
  return {
    replyMapping: 'legacy',
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: connectTimeoutMs,
    socketTimeout: SILENCE_MS,
    // it takes INFO, which may be renamed or forbidden; a server that is loading says so itself
    enableReadyCheck: false,
    reconnectOnError: isReadOnly,
    connectionName: 'weir',
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
    ...(tls && { tls: tlsOptions(tls, onTlsProblem) }),
  } as const satisfies RedisOptions;
}

function sentinelOptions(
  { sentinelCredentials: { username, password } }: RedisConnectOptions,
  tls: ConnectionOptions | undefined,
) {
  return {
    ...(username !== undefined && { sentinelUsername: username }),
    ...(password !== undefined && { sentinelPassword: password }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}
