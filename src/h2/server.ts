import type { Socket } from 'node:net';
import { intermittent, monotonicMs } from '../base/clock.ts';
import { CallerMemory, defaultCallerMemoryBytes, type MemoryAccount } from './bounds/caller-memory.ts';
import type { Router } from './grpc/router.ts';
import { Http2Connection } from './http2/connection.ts';
import { ConnectionLife, type ConnectionLimits, checkIntervalMs } from './http2/connection-life.ts';
import { errorNames } from './http2/errors.ts';
import type { ConnectionHandler } from './http2/exchanges.ts';
import { defaultLimits, type Http2Limits } from './http2/limits.ts';
import { type Address, type Listener, listen, type TlsOptions } from './listen/listener.ts';

/** A server on one address. */
export interface GrpcServer {
  /** Its address as a gRPC target: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/service.sock`. */
  readonly target: string;
  /** Stops accepting connections, waits up to `graceMs` for calls in flight, then ends the rest. */
  close(graceMs: number): Promise<void>;
}

interface ServerOptions {
  readonly address: Address;
  /** Certificates for TLS. Default: plain text. */
  readonly tls?: TlsOptions | undefined;
  /** Limits within each connection. Default: those of `defaultLimits`. */
  readonly limits?: Partial<Http2Limits> | undefined;
  /** Limits on number and age, and keepalive. Default: none. */
  readonly connections?: ConnectionLimits | undefined;
  /** Limit on the memory held for callers, which servers may share. Default: a fraction of V8's heap limit. */
  readonly memory?: CallerMemory;
  /** Number of calls for which `close` waits. Default: 0. */
  readonly inFlight?: () => number;
  /** Called when a connection or stream ends with an error, with RFC 9113's name of its code or one of those below. */
  readonly onConnectionError?: ((code: string) => void) | undefined;
}

/** Error code reported for connections beyond `maxCount` or the memory limit. */
export const TOO_MANY_CONNECTIONS = 'TOO_MANY_CONNECTIONS';

/** Code reported for idle connections that were ended in favour of new ones. */
export const IDLE_CONNECTION = 'IDLE_CONNECTION';

/**
 * Serves the methods of a router over HTTP/2.
 *
 * @throws Error if the address cannot be bound
 */
export async function serve(router: Router, options: ServerOptions): Promise<GrpcServer> {
  const { address, tls, connections: life, onConnectionError } = options;
  const limits = { ...defaultLimits, ...options.limits };
  const { memory = new CallerMemory(defaultCallerMemoryBytes()), inFlight = () => 0 } = options;
  const handler: ConnectionHandler = {
    request: (stream, head) => router.open(stream, head),
    tooLarge: (stream) => router.tooLarge(stream),
    failed: (code) => onConnectionError?.(errorNames[code]),
  };
  const connections = new Map<Http2Connection, ConnectionLife | undefined>();
  const checks = intermittent(checkIntervalMs(life), () => {
    const nowMs = monotonicMs();
    connections.forEach((lifeOfOne, connection) => {
      connection.check(nowMs);
      lifeOfOne?.check(nowMs);
    });
    return connections.size > 0;
  });
  const onConnection = (socket: Socket, account: MemoryAccount): Http2Connection => {
    const connection = new Http2Connection(socket, account, limits, handler);
    connections.set(connection, life && new ConnectionLife(connection, life));
    checks.wake();
    socket.on('close', () => connections.delete(connection));
    return connection;
  };
  const listener = await listen(address, tls, {
    maxCount: life?.maxCount,
    memory,
    onConnection,
    onTooMany: () => onConnectionError?.(TOO_MANY_CONNECTIONS),
    onRetired: () => onConnectionError?.(IDLE_CONNECTION),
  });
  const sendGoaway = (): void => {
    for (const connection of connections.keys()) connection.drain();
  };
  return {
    target: listener.target,
    async close(graceMs) {
      await shutDown({ listener, sendGoaway, inFlight, end: listener.destroyAll }, graceMs);
      checks.close();
    },
  };
}

/** Interval at which a closing server checks for calls in flight, which is also the time to send the last answer. */
const CHECK_INTERVAL_MS = 50;

/** The parts of a server that `shutDown` uses. */
interface Closing {
  readonly listener: Listener;
  /** Makes clients reconnect elsewhere. */
  readonly sendGoaway: () => void;
  /** Number of unanswered calls. */
  readonly inFlight: () => number;
  /** Ends every connection. */
  readonly end: () => void;
}

/** Closes a server after waiting up to `graceMs` for calls in flight, but not for streams, which may never end. */
export async function shutDown({ listener, sendGoaway, inFlight, end }: Closing, graceMs: number): Promise<void> {
  const endMs = performance.now() + graceMs;
  let wasIdle = false;
  const timer = setInterval(() => {
    const isIdle = inFlight() === 0;
    if ((isIdle && wasIdle) || performance.now() >= endMs) end();
    wasIdle = isIdle;
  }, CHECK_INTERVAL_MS);
  const closed = listener.close();
  sendGoaway();
  await closed;
  clearInterval(timer);
  end();
}
