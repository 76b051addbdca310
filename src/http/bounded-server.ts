import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { intermittent } from '../intermittent.ts';
import { CallerMemory } from '../overload/caller-memory.ts';
import { CONNECTION_BYTES, HttpConnection } from './connection.ts';
import { InputTurns } from './input-turns.ts';
import { type PacedSocket, pacedSocket } from './paced-socket.ts';
import { HttpRequest } from './request.ts';

/** Limits on the connections, memory and time of an HTTP server's clients. */
export interface HttpBounds {
  /** Open connections; further ones are closed at once. */
  readonly maxConnections: number;
  /** Unfinished requests per connection; more end the connection. */
  readonly maxRequestsInFlight: number;
  /** Charged with the memory held for clients; may be shared with other servers. */
  readonly memory: CallerMemory;
  /** From the start of a connection, or a request's first octet, to the end of the request's head. */
  readonly headTimeoutMs: number;
  /** From a request's first octet to the end of its body. */
  readonly requestTimeoutMs: number;
  /** Idle time between two requests. */
  readonly keepAliveTimeoutMs: number;
  /** How long a client may leave responses unread. */
  readonly outputTimeoutMs: number;
  /** How often the first two timeouts are checked; connections end up to this much later. */
  readonly checkIntervalMs: number;
  /** Absent: plain text. */
  readonly tls?: HttpTls;
}

/** The certificate of a server, which may change. */
export interface HttpTls {
  current(): HttpCertificate;
  /** Calls back after each change, until the function that this returns is called. */
  onChange(listener: (changed: HttpCertificate) => void): () => void;
}

/** In PEM. */
export interface HttpCertificate {
  readonly cert: string;
  readonly key: string;
}

const MAX_HEAD_BYTES = 16 * 1024;

/** Idle time before the first TCP keepalive probe, which detects vanished clients. */
const TCP_KEEP_ALIVE_MS = 60_000;

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
});

/** Creates a Node HTTP server that passes on requests within the bounds, and ends connections that exceed them. */
export function createBoundedServer(
  bounds: HttpBounds,
  onClosed: () => void,
  onRequest: (connection: HttpConnection, request: HttpRequest, response: ServerResponse) => void,
): Server<typeof HttpRequest> | TlsServer<typeof HttpRequest> {
  const connections = new Map<Socket, HttpConnection>();
  const { tls } = bounds;
  const options = {
    IncomingMessage: HttpRequest,
    insecureHTTPParser: false,
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: bounds.headTimeoutMs,
    requestTimeout: bounds.requestTimeoutMs,
    keepAliveTimeout: bounds.keepAliveTimeoutMs,
    connectionsCheckingInterval: bounds.checkIntervalMs,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
  } as const;
  const checks = intermittent(IDLE_CHECK_MS, () => {
    const inUse = [...connections.values()].filter((connection) => !connection.checkIdle());
    return inUse.length > 0; // a request wakes it
  });
  const listener = (request: HttpRequest, response: ServerResponse): void => {
    checks.wake();
    const connection = connections.get(request.socket);
    if (connection?.open(request, response)) onRequest(connection, request, response);
  };
  const server = tls
    ? createTlsServer<typeof HttpRequest>(
        { ...options, ...tls.current(), handshakeTimeout: bounds.headTimeoutMs },
        listener,
      )
    : createServer<typeof HttpRequest>(options, listener);
  if (tls && 'setSecureContext' in server)
    server.once(
      'close',
      tls.onChange((changed) => server.setSecureContext(changed)),
    );
  const turns = tls ? undefined : new InputTurns();
  const accept = (socket: PacedSocket): void => {
    const holder = { reset: () => socket.destroy(), retire: () => connections.get(socket)?.retire() === true };
    const account = connections.size < bounds.maxConnections ? bounds.memory.open(CONNECTION_BYTES, holder) : undefined;
    if (!account) return void socket.destroy();
    const connection = new HttpConnection(socket, account, bounds, { turns, onClosed });
    connections.set(socket, connection);
    socket.once('close', () => {
      connections.delete(socket);
      connection.end();
    });
  };
  if (turns) paceConnections(server, turns, accept);
  else server.on('secureConnection', accept); // TLS reads from the kernel by itself
  return server;
}

/** Hands paced sockets to Node's own listener, which otherwise lets its parser read from the kernel by itself. */
function paceConnections(server: Server, turns: InputTurns, accept: (socket: PacedSocket) => void): void {
  const serve = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (accepted: Socket) => {
    const socket = pacedSocket(accepted, turns);
    accept(socket);
    for (const listener of serve) listener.call(server, socket);
    if (!socket.destroyed) socket.on('data', NOTHING).removeListener('data', NOTHING); // the parser lets go of the handle
  });
}

const NOTHING = (): void => {};
