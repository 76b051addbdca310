import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { type ClientTls, tlsOptions } from '../tls.ts';
import type { Credentials, RedisAddress } from './address.ts';

/** A connection to one server, or to all nodes of a Cluster. */
export type Connection = Redis | Cluster;

/** What a connection is besides an address. */
export interface RedisConnectOptions {
  readonly address: RedisAddress;
  /** Undefined: plain text, unless the address itself says otherwise. */
  readonly tls: ClientTls | undefined;
  /** As whom to speak to the sentinels. */
  readonly sentinelCredentials: Credentials;
  /** The longest that connecting may take. */
  readonly connectTimeoutMs: number;
  /** Until the first connection: the first wait, and the longest; each is twice the one before. */
  readonly startup: { readonly initialMs: number; readonly maxMs: number };
}

/** How often a server that is loading is asked whether it is ready: what it expects of that is often far too long. */
const LOADING_LOOK_MS = 500;

/** A connection that leaves a call unanswered for so long is given up, with all that waits on it, and opened anew. */
const SILENCE_MS = 1_000;

/**
 * Opens a connection that reconnects by itself, for ever, and says at once when it cannot be used.
 *
 * A counting call must not run twice: ioredis neither queues commands while there is no connection nor sends again what
 * was under way when one broke. On a Cluster, what a node refused before it ran (MOVED, ASK, TRYAGAIN) is sent again.
 *
 * @throws Error  of the file system, when a file of `tls` cannot be read
 */
export function connect(options: RedisConnectOptions): Connection {
  let wasReady = false;
  const retryStrategy = (attempt: number): number =>
    withJitter(
      wasReady
        ? Math.min(50 * 2 ** Math.min(attempt, 5), 1_000)
        : Math.min(options.startup.initialMs * 2 ** Math.min(attempt - 1, 30), options.startup.maxMs),
    );
  const redis = open(options, retryStrategy);
  redis.once('ready', () => {
    wasReady = true;
  });
  return redis;
}

/** Up to a tenth more, so that a fleet does not come at once. */
const withJitter = (ms: number): number => ms + Math.floor(Math.random() * ms * 0.1);

type RetryStrategy = (attempt: number) => number;

function open(options: RedisConnectOptions, retryStrategy: RetryStrategy): Connection {
  const { address } = options;
  const common = commonOptions(options);
  const own = { ...common, enableOfflineQueue: false, retryStrategy };
  switch (address.kind) {
    case 'unix':
      return new Redis(address.path, { ...own, db: address.database });
    case 'tcp': {
      const { host, port, database: db } = address;
      return new Redis(port, host, { ...own, db, ...(address.tls && !options.tls && { tls: {} }) });
    }
    case 'sentinel': {
      const sentinels = { sentinels: [...address.sentinels], name: address.master, failoverDetector: true };
      return new Redis({ ...sentinels, ...sentinelOptions(options), ...own, sentinelRetryStrategy: retryStrategy });
    }
    case 'cluster': {
      const cluster = new Cluster([...address.nodes], {
        enableOfflineQueue: false,
        clusterRetryStrategy: retryStrategy,
        retryDelayOnFailover: 0, // else it would send again what may have run
        ...{ maxRedirections: MAX_REDIRECTIONS, retryDelayOnTryAgain: 1 },
        retryDelayOnClusterDown: 0, // it is told at once, instead of after the caller has gone
        redisOptions: common,
        dnsLookup: (host, done) => done(null, host), // each connection looks it up, and certificates name hosts
      });
      connectEachNode(cluster);
      return cluster;
    }
  }
}

/**
 * To where a slot is now, and to the other node of one that is moving. What nobody can answer then (TRYAGAIN: half the counters of a call have
 * moved) fails within a few milliseconds, while its caller is there.
 */
const MAX_REDIRECTIONS = 4;

/** Else a node is connected to for its first command, and those that come meanwhile are refused. */
function connectEachNode(cluster: Cluster): void {
  const connectTo = (node: Redis): void => {
    if (node.status === 'wait') node.connect().catch(() => {}); // it is told as an error of the Cluster
  };
  cluster.on('ready', () => cluster.nodes().forEach(connectTo));
  cluster.on('+node', (node: Redis) => {
    if (cluster.status === 'ready') connectTo(node); // earlier, the Cluster itself asks one of them how it is
  });
}

function commonOptions({ address, tls, connectTimeoutMs }: RedisConnectOptions) {
  return {
    replyMapping: 'legacy',
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: connectTimeoutMs,
    socketTimeout: SILENCE_MS,
    maxLoadingRetryTime: LOADING_LOOK_MS,
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'), // another server has become the master
    connectionName: 'weir',
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
    ...(tls && { tls: tlsOptions(tls) }),
  } as const satisfies RedisOptions;
}

function sentinelOptions({ tls, sentinelCredentials: { username, password } }: RedisConnectOptions) {
  return {
    ...(username !== undefined && { sentinelUsername: username }),
    ...(password !== undefined && { sentinelPassword: password }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tlsOptions(tls) }),
  };
}
