import { createServer, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { intermittent } from '../../base/intermittent.ts';
import { CallerMemory, type MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import { type Listener, listen, type TlsOptions } from '../../h2/listen/listener.ts';
import { CONNECTION_BYTES, type ConnectionBounds, HttpConnection } from './connection.ts';
import { InputTurns } from './input-turns.ts';
import { pacedSocket } from './paced-socket.ts';
import { HttpRequest } from './request.ts';

/** Limits on the connections, memory and time of an HTTP server's clients. */
export interface HttpBounds extends ConnectionBounds {
  /** Open connections; a further one replaces another one, or is closed at once. */
  readonly maxConnections: number;
  /** Charged with the memory held for clients; may be shared with other servers. */
  readonly memory: CallerMemory;
  /** From the start of a connection, or a request's first octet, to the end of the request's head. */
  readonly headTimeoutMs: number;
  /** From a request's first octet to the end of its body. */
  readonly requestTimeoutMs: number;
  /** Idle time between two requests. */
  readonly keepAliveTimeoutMs: number;
  /** How often the first two timeouts are checked; connections end up to this much later. */
  readonly checkIntervalMs: number;
  /** Absent: plain text. */
  readonly tls?: TlsOptions['certificates'];
}

const MAX_HEAD_BYTES = 16 * 1024;

/** How often connections are checked for requests: those without may be ended for new ones. */
const IDLE_CHECK_MS = 1_000;

/** Memory held for clients of an operators' server; a page of statistics has a few megabytes at most. */
const OPERATOR_MEMORY_BYTES = 64 * 1024 * 1024;

/** Bounds of a server that only operators reach. */
export const operatorBounds = (): HttpBounds => ({
  maxConnections: 100,
  maxRequestsInFlight: 100,
  memory: new CallerMemory(OPERATOR_MEMORY_BYTES),
  headTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000, // longer than the minute for which load balancers keep idle connections
  outputTimeoutMs: 30_000,
  checkIntervalMs: 2_000,
  isChecked: () => false,
});

/**
 * Passes on requests within the bounds, and ends connections that exceed them. Node's HTTP server only parses requests:
 * it does not listen itself.
 *
 * @throws Error if the address cannot be bound
 */
export async function listenForRequests(
  address: { readonly host: string; readonly port: number },
  bounds: HttpBounds,
  onClosed: () => void,
  onRequest: (connection: HttpConnection, request: HttpRequest, response: ServerResponse) => void,
): Promise<Listener> {
  const { tls } = bounds;
  const connections = new Map<Socket, HttpConnection>();
  const checks = intermittent(IDLE_CHECK_MS, () => {
    const inUse = [...connections.values()].filter((connection) => !connection.checkIdle());
    return inUse.length > 0; // a request wakes it
  });
  const parser = createServer<typeof HttpRequest>(
    {
      IncomingMessage: HttpRequest,
      insecureHTTPParser: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: bounds.headTimeoutMs,
      requestTimeout: bounds.requestTimeoutMs,
      keepAliveTimeout: bounds.keepAliveTimeoutMs,
      connectionsCheckingInterval: bounds.checkIntervalMs,
    },
    (request, response) => {
      checks.wake();
      const connection = connections.get(request.socket);
      if (connection?.open(request, response)) onRequest(connection, request, response);
    },
  );
  parser.emit('listening'); // starts its checks of timeouts
  const turns = tls ? undefined : new InputTurns(); // TLS reads from the kernel by itself
  const onConnection = (socket: Socket, account: MemoryAccount): HttpConnection => {
    const connection = new HttpConnection(socket, account, bounds, { turns, onClosed });
    connections.set(socket, connection);
    socket.once('close', () => {
      connections.delete(socket);
      connection.end();
    });
    parser.emit('connection', socket);
    if (turns && !socket.destroyed) socket.on('data', NOTHING).removeListener('data', NOTHING); // the parser lets go of the handle
    return connection;
  };
  const listener = await listen(address, tls && { certificates: tls, clientName: undefined, protocol: 'http/1.1' }, {
    maxCount: bounds.maxConnections,
    memory: bounds.memory,
    plainBytes: CONNECTION_BYTES,
    takeSocket: turns && ((accepted) => pacedSocket(accepted, turns)),
    onConnection,
  });
  return {
    ...listener,
    close() {
      parser.close();
      return listener.close();
    },
  };
}

const NOTHING = (): void => {};
