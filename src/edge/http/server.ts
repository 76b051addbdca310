import { type HttpBounds, listenForRequests, operatorBounds } from './bounded-server.ts';
import { sizeOf } from './connection.ts';
import { CallerDisconnected, type HttpRequest } from './request.ts';

/** A response. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  /**
   * Buffers if it is already encoded, one after the other; they may be shared with other responses. An asynchronous
   * iterable is read at the client's pace.
   */
  readonly body: string | readonly Buffer[] | AsyncIterable<Buffer>;
  /** Further headers, in printable ASCII. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further parts follow the body, until the client or the server closes. */
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
  /** The methods accepted; absent: any. */
  readonly methods?: readonly string[];
  answer(request: HttpRequest): Page | Promise<Page>;
}

/** A listening server. */
export interface HttpServer {
  readonly port: number;
  /** Stops accepting, waits up to `graceMs` for requests in flight, then ends the rest. */
  close(graceMs: number): Promise<void>;
}

export const plain = (status: number, body: string | readonly Buffer[]): Page => ({
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
 * route at `/`; if there is none, and below `/console`, the status is 404.
 *
 * @param onError  called with errors that pages throw; the client gets a 500 without the reason
 * @param bounds   defaults to those of `operatorBounds`
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
    void pageOf(routes, request, onError)
      .then((page) => {
        if (!page || request.isGone) return;
        if (closing || request.isEndless) response.setHeader('connection', 'close');
        const body = typeof page.body === 'string' ? [Buffer.from(page.body)] : page.body;
        if (Symbol.asyncIterator in body) {
          response.writeHead(page.status, { ...page.headers, 'content-type': page.contentType });
          return connection.stream(request, response, body);
        }
        if (page.follow) {
          response.writeHead(page.status, { ...page.headers, 'content-type': page.contentType });
          return page.follow(connection.follow(response, body));
        }
        response.writeHead(page.status, {
          ...page.headers,
          'content-type': page.contentType,
          'content-length': sizeOf(body),
        });
        connection.send(request, response, body);
      })
      .catch(onError);
  };
  const listener = await listenForRequests(address, { ...operatorBounds(), ...bounds }, onClosed, onRequest);
  return {
    port: listener.port,
    async close(graceMs) {
      closing = true;
      const timer = setTimeout(listener.destroyAll, graceMs);
      const closed = listener.close();
      if (inFlight === 0) listener.destroyAll(); // also those that never sent a request
      await closed;
      clearTimeout(timer);
    },
  };
}

const notFound = plain(404, '404 page not found\n');

/** The route of all paths below it that have no route of their own. */
export const API = '/api/';
const isApi = (path: string): boolean => path === '/api' || path.startsWith(API);

const isConsole = (path: string): boolean => /^\/console(\/|$)/.test(path);

/** Unknown paths get the list of pages, except those that programs read: status 200 would mislead programs. */
const routeOf = (routes: ReadonlyMap<string, Route>, path: string): Route | undefined =>
  routes.get(path) ?? (isConsole(path) ? undefined : routes.get(isApi(path) ? API : '/'));

const methodNotAllowed = (methods: readonly string[]): Page => ({
  ...plain(405, '405 method not allowed\n'),
  headers: { allow: methods.join(', ') },
});

/** @returns undefined if the client has disconnected */
async function pageOf(
  routes: ReadonlyMap<string, Route>,
  request: HttpRequest,
  onError: (error: unknown) => void,
): Promise<Page | undefined> {
  const [path = '/'] = (request.url ?? '/').split('?');
  const route = routeOf(routes, path);
  if (route?.methods && !route.methods.includes(request.method ?? 'GET')) return methodNotAllowed(route.methods);
  try {
    return route ? await route.answer(request) : notFound;
  } catch (error) {
    if (error instanceof CallerDisconnected) return undefined;
    onError(error);
    return plain(500, 'Internal Server Error\n');
  }
}

/** Whether the query has `verbose`. */
export const isVerbose = ({ url = '' }: HttpRequest): boolean =>
  new URL(url, 'http://weir').searchParams.has('verbose');
