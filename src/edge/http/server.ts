import { createServer, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { intermittent } from '../../base/clock.ts';
import { CallerMemory, type MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import { type Listener, listen, type TlsOptions } from '../../h2/listen/listener.ts';
import { CONNECTION_BYTES, type ConnectionBounds, HttpConnection, pacedSocket } from './connection.ts';
import { InputTurns } from './input-turns.ts';
import { CallerDisconnected, HttpRequest } from './request.ts';

/** A response. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  /** A buffer may be shared with other responses. */
  readonly body: string | Buffer;
  /** Further headers, in printable ASCII. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends further parts after the body, until the client or the server closes. */
  readonly follow?: (output: PageOutput) => void;
}

/** The output of a page that does not end by itself. */
export interface PageOutput {
  /** Sends a part, unless the client still reads earlier ones. @returns whether it was sent */
  write(part: Buffer): boolean;
  /** Calls back once when no more can be sent. */
  onClosed(listener: () => void): void;
}

/** A route of an HTTP server, with its help text. */
export interface Route {
  readonly help: string;
  /** Accepted methods. Default: any. */
  readonly methods?: readonly string[];
  answer(request: HttpRequest): Page | Promise<Page>;
}

/** A listening server. */
export interface HttpServer {
  readonly port: number;
  /** Stops accepting, waits up to `graceMs` for requests in flight, then ends the rest. */
  close(graceMs: number): Promise<void>;
}

export const plain = (status: number, body: string | Buffer): Page => ({
  status,
  contentType: 'text/plain; charset=utf-8',
  body,
});
export const json = (status: number, value: object): Page => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(value),
});

/**
 * Serves pages by their exact path. Other paths below `/api/` are answered by the route at `/api/`, and others by the
 * route at `/`. Without one, and below `/console`, the status is 404.
 *
 * @param onError  called with errors that pages throw; the client gets a 500 without the reason
 * @param bounds   default: those of `operatorBounds`
 * @throws Error if the address cannot be bound
 */
export async function startHttpServer(
  address: { readonly host: string; readonly port: number },
  routes: ReadonlyMap<string, Route>,
  onError: (error: unknown) => void,
  bounds: Partial<HttpBounds> = {},
): Promise<HttpServer> {
  let closing = false;
  let inFlight = 0;
  const onClosed = (): void => {
    inFlight--;
    if (closing && inFlight === 0) listener.destroyAll();
  };
  const onRequest: Parameters<typeof listenForRequests>[3] = (connection, request, response) => {
    inFlight++;
    const send = (page: Page | undefined): void => {
      if (!page || request.isGone) return;
      if (closing || request.isEndless) response.setHeader('connection', 'close');
      const body = typeof page.body === 'string' ? Buffer.from(page.body) : page.body;
      if (page.follow) {
        response.writeHead(page.status, { ...page.headers, 'content-type': page.contentType });
        return page.follow(connection.follow(response, body));
      }
      response.writeHead(page.status, {
        ...page.headers,
        'content-type': page.contentType,
        'content-length': body.length,
      });
      connection.send(request, response, body);
    };
    void renderPage(routes, request, onError)
      .then(send)
      .catch((error) => {
        onError(error);
        if (!response.headersSent) send(failedPage); // a header of the page was invalid
      });
  };
  const listener = await listenForRequests(address, { ...operatorBounds(), ...bounds }, onClosed, onRequest);
  return {
    port: listener.port,
    async close(graceMs) {
      closing = true;
      const timer = setTimeout(listener.destroyAll, graceMs);
      const closed = listener.close();
      if (inFlight === 0) listener.destroyAll(); // including those that never sent a request
      await closed;
      clearTimeout(timer);
    },
  };
}

const failedPage = plain(500, 'Internal Server Error\n');
const notFound = plain(404, '404 page not found\n');

/** Path of the route for all paths below it without a route of their own. */
export const API = '/api/';
const isApi = (path: string): boolean => path === '/api' || path.startsWith(API);

const isConsole = (path: string): boolean => /^\/console(\/|$)/.test(path);

/** Finds the route of a path. Unknown ones get the list of pages, except those for programs: 200 would mislead. */
const findRoute = (routes: ReadonlyMap<string, Route>, path: string): Route | undefined =>
  routes.get(path) ?? (isConsole(path) ? undefined : routes.get(isApi(path) ? API : '/'));

const methodNotAllowed = (methods: readonly string[]): Page => ({
  ...plain(405, '405 method not allowed\n'),
  headers: { allow: methods.join(', ') },
});

/** @returns undefined if the client has disconnected */
async function renderPage(
  routes: ReadonlyMap<string, Route>,
  request: HttpRequest,
  onError: (error: unknown) => void,
): Promise<Page | undefined> {
  const [path = '/'] = (request.url ?? '/').split('?');
  const route = findRoute(routes, path);
  if (route?.methods && !route.methods.includes(request.method ?? 'GET')) return methodNotAllowed(route.methods);
  try {
    return route ? await route.answer(request) : notFound;
  } catch (error) {
    if (error instanceof CallerDisconnected) return undefined;
    onError(error);
    return failedPage;
  }
}

/** Whether the query has `verbose`. */
export const isVerbose = ({ url = '' }: HttpRequest): boolean =>
  new URL(url, 'http://weir').searchParams.has('verbose');

/** Limits on the connections, memory and time of an HTTP server's clients. */
export interface HttpBounds extends ConnectionBounds {
  /** Maximum open connections; a further one replaces another one, or is closed. */
  readonly maxConnections: number;
  /** Account of the memory held for clients; may be shared with other servers. */
  readonly memory: CallerMemory;
  /** Timeout from the start of a connection, or a request's first octet, to the end of the request's head. */
  readonly headTimeoutMs: number;
  /** Timeout from a request's first octet to the end of its body. */
  readonly requestTimeoutMs: number;
  /** Maximum idle time between two requests. */
  readonly keepAliveTimeoutMs: number;
  /** Interval at which the first two timeouts are checked; connections end up to this much later. */
  readonly checkIntervalMs: number;
  /** Certificates for TLS. Default: plain text. */
  readonly tls?: TlsOptions['certificates'];
}

const MAX_HEAD_BYTES = 16 * 1024;

/** Interval at which connections are checked for requests; idle ones may be replaced. */
const IDLE_CHECK_MS = 1_000;

/** Limit on the memory held for clients of an operators' server; a page of statistics has a few megabytes at most. */
const OPERATOR_MEMORY_BYTES = 64 * 1024 * 1024;

const operatorBounds = (): HttpBounds => ({
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
 * Passes on requests within the bounds, and ends connections that exceed them. Node's HTTP server only parses requests
 * and does not listen.
 *
 * @throws Error if the address cannot be bound
 */
async function listenForRequests(
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
    if (turns && !socket.destroyed) socket.on('data', NOTHING).removeListener('data', NOTHING); // the parser releases the handle
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
