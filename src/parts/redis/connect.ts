import type { ConnectionOptions } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { type ClientTls, tlsOptions } from '../../engine/backends/tls.ts';
import type { RedisOptions as ServerOptions } from '../../engine/open/options.ts';
import { mendCluster } from './cluster.ts';
import { isReadOnly } from './reason.ts';

/** A connection to one server, or to all nodes of a Cluster. */
export type RedisConnection = Redis | Cluster;

/** The options of a connection. */
interface ConnectOptions extends ServerOptions {
  /** Until the first connection: the first wait, and the longest; each is twice the previous one. */
  readonly startup?: { readonly initialMs: number; readonly maxMs: number } | undefined;
  /** Called with each new reason why changed files of `tls` cannot be used. */
  readonly onTlsProblem?: (problem: string) => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
const STARTUP = { initialMs: 1_000, maxMs: 30_000 };

/** Maximum wait between two attempts to reconnect; less than a second together with the attempt. */
const MAX_RETRY_MS = 300;
/** The shortest time for an attempt to reconnect: packets lost with the network are only resent after a second. */
const MIN_CONNECT_MS = 500;
/** An attempt may take this multiple of the slowest connection so far, up to `connectTimeoutMs`. */
const CONNECT_MARGIN = 4;

/**
 * Opens a connection that reconnects by itself, indefinitely, and fails calls immediately while it cannot be used.
 *
 * A counting call must not run twice: ioredis neither queues commands while there is no connection, nor resends those
 * in flight when a connection breaks. On a Cluster, commands that a node refused before running them (MOVED, ASK,
 * TRYAGAIN) are resent.
 *
 * @throws Error  of the file system, if a file of `tls` cannot be read
 */
export function connect(options: ConnectOptions): RedisConnection {
  const { startup = STARTUP, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  let wasReady = false;
  const retryStrategy = (attempt: number): number =>
    withJitter(
      wasReady
        ? Math.min(50 * 2 ** Math.min(attempt, 5), MAX_RETRY_MS)
        : Math.min(startup.initialMs * 2 ** Math.min(attempt - 1, 30), startup.maxMs),
    );
  const redis = open(options, retryStrategy);
  redis.once('ready', () => {
    wasReady = true;
  });
  hurryReconnects(redis, connectTimeoutMs);
  forEachClient(redis, endWhenSilent);
  forEachClient(redis, readAtOnce);
  return redis;
}

/**
 * Adds a listener for replies by `on`. ioredis adds its own by `prependListener`, which Node does not notice: it would
 * buffer each reply, and pass it on a tick later.
 */
function readAtOnce(redis: Redis): void {
  redis.on('connect', () => redis.stream.on('data', () => {}));
}

/** The connections to all servers that have counters. */
export const masters = (redis: RedisConnection): readonly Redis[] =>
  redis instanceof Cluster ? redis.nodes('master') : [redis];

/** The name of a Cluster's node, as it reports it. */
export const nameNode = ({ options: { host, port } }: Redis): string => `${host}:${port}`;

/** The handshake of ioredis, and none: some proxies close the connection on the first command that they do not know. */
const HANDSHAKE = { protocol: 3, connectionName: 'weir', disableClientInfo: false } as const;
const NO_HANDSHAKE = { protocol: 2, connectionName: undefined, disableClientInfo: true } as const;

/** The number of handshakes that a server may cut after it has completed one, before it is sent none. */
const MAX_CUT_HANDSHAKES = 20;

/** Whether the server may only be sent what counting needs, since it closes the connection on other commands. */
export const isQuiet = (redis: RedisConnection): boolean => redis instanceof Redis && redis.options.protocol === 2;

/**
 * After an attempt to connect whose handshake was answered by closing the connection, makes the next one without a
 * handshake. A server that has completed a handshake before is given more attempts, since it may just be failing. If the
 * connection without a handshake is usable, a second one tries the handshake again, since a proxy that accepts
 * connections may have closed the first one only because the server behind it was down.
 *
 * An error that the server sends before it closes the connection, such as `max number of clients reached`, is reported:
 * ioredis drops it.
 */
function outliveHandshake(redis: Redis): Redis {
  let isUnanswered = false;
  let cutsLeft = 1;
  let refusal: string | undefined;
  redis.on('connect', () => {
    isUnanswered = true;
    redis.stream.once('data', (piece: Buffer) => {
      refusal = /^-(.*)\r\n$/.exec(piece.toString())?.[1];
    });
  });
  redis.on('error', ({ name, message }: Error) => {
    if (name === 'ReplyError' || message === SILENT) isUnanswered = false;
  });
  redis.on('ready', () => {
    isUnanswered = false;
    refusal = undefined;
    if (isQuiet(redis)) void retryHandshake(redis).catch(() => {});
    else cutsLeft = MAX_CUT_HANDSHAKES;
  });
  redis.on('close', () => {
    if (isUnanswered) cutsLeft--;
    const isRefused = isUnanswered && cutsLeft <= 0;
    Object.assign(redis.options, isRefused && !isQuiet(redis) ? NO_HANDSHAKE : HANDSHAKE);
    isUnanswered = false;
    if (refusal !== undefined) redis.emit('error', new Error(refusal));
    refusal = undefined;
  });
  return redis;
}

/** Connects anew if a handshake succeeds. @throws  if the server does not answer, or the handshake fails */
async function retryHandshake(redis: Redis): Promise<void> {
  await redis.ping();
  const other = redis.duplicate({ ...HANDSHAKE, lazyConnect: true, retryStrategy: () => null });
  other.on('error', () => {});
  try {
    await other.connect();
    redis.disconnect(true);
  } finally {
    other.disconnect();
  }
}

/** Calls `use` with the client of one server, or with that of each node of a Cluster as it is added. */
function forEachClient(connection: RedisConnection, use: (client: Redis) => void): void {
  if (connection instanceof Redis) use(connection);
  else connection.on('+node', use);
}

/**
 * After the first connection, attempts that take much longer than earlier ones are aborted and retried. On a Cluster
 * the first connection to any node counts: a lost node gets a new client for each attempt.
 */
function hurryReconnects(connection: RedisConnection, connectTimeoutMs: number): void {
  let slowestMs: number | undefined;
  forEachClient(connection, (redis) => {
    let startedMs = performance.now();
    const hurry = (): void => {
      if (slowestMs === undefined) return;
      redis.options.connectTimeout = Math.min(Math.max(CONNECT_MARGIN * slowestMs, MIN_CONNECT_MS), connectTimeoutMs);
    };
    hurry();
    redis.on('connecting', () => {
      startedMs = performance.now();
    });
    redis.on('connect', () => {
      slowestMs = Math.max(slowestMs ?? 0, performance.now() - startedMs);
      hurry();
    });
  });
}

/** Up to a tenth more, so that a fleet does not connect simultaneously. */
const withJitter = (ms: number): number => ms + Math.floor(Math.random() * ms * 0.1);

function open(options: ConnectOptions, retryStrategy: (attempt: number) => number): RedisConnection {
  const { address } = options;
  const common = commonOptions(options);
  const own = { ...common, enableOfflineQueue: false, retryStrategy };
  switch (address.kind) {
    case 'unix':
      return withDatabase(outliveHandshake(new Redis({ ...own, path: address.path, db: address.database })));
    case 'tcp': {
      const { host, port, database: db } = address;
      return withDatabase(outliveHandshake(new Redis({ ...own, host, port, db }))); // not as arguments, which would be parsed as a URL
    }
    case 'sentinel': {
      const sentinels = { sentinels: [...address.sentinels], name: address.master, failoverDetector: true };
      const redis = new Redis({
        ...sentinels,
        ...sentinelOptions(options, common.tls),
        ...own,
        sentinelRetryStrategy: retryStrategy,
      });
      mendListeners(redis);
      outliveFailovers(redis);
      return redis;
    }
    case 'cluster': {
      const cluster = new Cluster([...address.nodes], {
        enableOfflineQueue: false,
        clusterRetryStrategy: retryStrategy,
        retryDelayOnFailover: 0, // otherwise it would resend calls that may have run
        maxRedirections: MAX_REDIRECTIONS,
        retryDelayOnTryAgain: 1,
        retryDelayOnClusterDown: 0, // reported immediately, instead of after the caller has timed out
        redisOptions: common,
        dnsLookup: (host, done) => done(null, host), // each connection resolves it, and certificates name hosts
      });
      mendCluster(cluster);
      return cluster;
    }
  }
}

/**
 * Fails an attempt to connect if the database cannot be selected: ioredis would only report that, and continue in
 * database 0. An exception in a listener ends the attempt, and is reported once more.
 */
function withDatabase(redis: Redis): Redis {
  const thrown = new WeakSet<Error>();
  redis.on('error', (error: Error & { readonly command?: { readonly name: string } }) => {
    if (error.command?.name !== 'select' || redis.status !== 'connect' || thrown.has(error)) return;
    thrown.add(error);
    throw error;
  });
  return redis;
}

/**
 * Redirections to a slot's new node, and to the other node of a slot that is moving. A call that no node can run then
 * (TRYAGAIN: a part of its counters has moved) fails within a few milliseconds, before its caller times out.
 */
const MAX_REDIRECTIONS = 4;

/**
 * ioredis listens to every sentinel for failovers, and disconnects at each. A sentinel that is down needs no line on
 * stderr, since the next one is queried. A failover of another master, or to the master that it is connected to, is no
 * reason to disconnect: sentinels name a new master before they announce it, which they do when its other replicas have
 * followed.
 */
function mendListeners(redis: Redis): void {
  // private in the types; a connector of sentinels, by the options
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

/** ioredis takes an attempt that a failover interrupted for closed. Reconnects unless `disconnect()` was called. */
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

function commonOptions({ address, tls: files, connectTimeoutMs, onTlsProblem }: ConnectOptions) {
  const tls = files ?? ('tls' in address && address.tls ? NO_FILES : undefined);
  return {
    replyMapping: 'legacy',
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    // it uses INFO, which may be renamed or forbidden; a server that is loading reports it in its replies
    enableReadyCheck: false,
    reconnectOnError: leavesReplica(),
    ...HANDSHAKE,
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
    ...(tls && { tls: tlsOptions(tls, onTlsProblem) }),
  } as const satisfies RedisOptions;
}

/** Reconnects when the server has become a replica; if the new one is one too, at most once per `MAX_RETRY_MS`. */
function leavesReplica(): (error: Error) => boolean {
  let leftAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (!isReadOnly(error) || performance.now() - leftAtMs < MAX_RETRY_MS) return false;
    leftAtMs = performance.now();
    return true;
  };
}

function sentinelOptions(
  { sentinelCredentials: { username, password } = {} }: ConnectOptions,
  tls: ConnectionOptions | undefined,
) {
  return {
    ...(username !== undefined && { sentinelUsername: username }),
    ...(password !== undefined && { sentinelPassword: password }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}

/** A connection that leaves a command unanswered for this long, or a check longer, is closed and reopened. */
const SILENCE_MS = 1_000;
const SILENT = `no reply within ${SILENCE_MS} ms`;
const CHECKS = 4;
const CHECK_MS = SILENCE_MS / CHECKS;
/** The number of silent checks after a reply: the next command may be sent just before the next check. */
const UNKNOWN = -1;
/** A check that is later than this shows that this process was late, and nothing about the server. */
const LATE_MS = CHECK_MS;

/** Private in the types of ioredis. */
interface Internals {
  readonly commandQueue: { readonly length: number };
  readonly stream: { readonly bytesRead: number; destroy(error: Error): void };
  /** ioredis clears it when the connection closes, and calls `setSocketTimeout` if a command is sent without it. */
  socketTimeoutTimer: NodeJS.Timeout | undefined;
  setSocketTimeout(): void;
}

/**
 * Replaces ioredis' own detection of silent connections. Its timer fires before input is read, so a process that was
 * stopped or busy for a second lost its connection although the replies had arrived. It was also set again with each
 * reply, while this one is checked four times a second.
 */
function endWhenSilent(redis: Redis): void {
  const internals = redis as unknown as Internals;
  internals.setSocketTimeout = () => {
    const { stream } = internals;
    let bytesRead = stream.bytesRead;
    let silentChecks = UNKNOWN;
    let dueMs = 0;
    const check = (): void => {
      const isLate = performance.now() - dueMs > LATE_MS;
      internals.socketTimeoutTimer = undefined;
      if (internals.commandQueue.length === 0) return;
      const isSilent = stream.bytesRead === bytesRead && !isLate;
      bytesRead = stream.bytesRead;
      silentChecks = isSilent ? silentChecks + 1 : UNKNOWN;
      if (silentChecks >= CHECKS) stream.destroy(new Error(SILENT));
      else wait();
    };
    const wait = (): void => {
      dueMs = performance.now() + CHECK_MS;
      internals.socketTimeoutTimer = setTimeout(check, CHECK_MS);
    };
    wait();
  };
}
