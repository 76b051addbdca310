import type { AddressInfo } from 'node:net';
import { createBoundedServer, type HttpBounds, operatorBounds } from './bounded-server.ts';
import { CallerGone, type HttpRequest } from './request.ts';

/** What a page answers. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  /** Bytes where it is encoded already. */
  readonly body: string | Buffer;
  /** Further headers, in visible ASCII. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A path of an HTTP server: what it is for, and what it answers to a request. */
export interface Route {
  readonly help: string;
  /** Methods that it takes; absent: any. */
  readonly methods?: readonly string[];
  answer(request: HttpRequest): Page | Promise<Page>;
}

/** A server that listens. */
export interface HttpServer {
  readonly port: number;
  /** Takes no more requests, lets those under way finish for at most `graceMs`, then ends what is left. */
  close(graceMs: number): Promise<void>;
}

export const plain = (status: number, body: string): Page => ({
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
 * Serves pages by their exact path. Other paths are answered by the route at `/`, without one, and below `/api` and `/console`, by 404.
 *
 * @param onError  called with what a page threw; the client gets a 500 without the reason
 * @param bounds   what is not given is as for a server that only operators reach
 * @throws Error   when the address cannot be bound
 */
export async function startHttpServer(
  { host, port }: { readonly host: string; readonly port: number },
  routes: ReadonlyMap<string, Route>,
  onError: (error: unknown) => void,
  bounds: Partial<HttpBounds> = {},
): Promise<HttpServer> {
  let closing = false;
  let inFlight = 0;
  const onClosed = (): void => {
    inFlight--;
    if (closing && inFlight === 0) server.closeAllConnections();
  };
  const server = createBoundedServer({ ...operatorBounds(), ...bounds }, onClosed, (connection, request, response) => {
    inFlight++;
    void pageOf(routes, request, onError)
      .then((page) => {
        if (!page || request.isGone) return;
        if (closing || request.isEndless) response.setHeader('connection', 'close');
        const body = typeof page.body === 'string' ? Buffer.from(page.body) : page.body;
        response.writeHead(page.status, {
          ...page.headers,
          'content-type': page.contentType,
          'content-length': body.length,
        });
        connection.send(request, response, body);
      })
      .catch(onError);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port, // an address of TCP, since it listens on a port
    close: (graceMs) =>
      new Promise((resolve) => {
        closing = true;
        const timer = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        if (inFlight === 0) server.closeAllConnections(); // those that never asked anything, too
      }),
  };
}

const notFound = plain(404, '404 page not found\n');

/** Paths that programs ask for: a list of pages with status 200 would mislead them. */
const isOfProgram = (path: string): boolean => /^\/(api|console)(\/|$)/.test(path);

const methodNotAllowed = (methods: readonly string[]): Page => ({
  ...plain(405, '405 method not allowed\n'),
  headers: { allow: methods.join(', ') },
});

/** @returns undefined  the client has gone */
async function pageOf(
  routes: ReadonlyMap<string, Route>,
  request: HttpRequest,
  onError: (error: unknown) => void,
): Promise<Page | undefined> {
  const [path = '/'] = (request.url ?? '/').split('?');
  const route = routes.get(path) ?? (isOfProgram(path) ? undefined : routes.get('/'));
  if (route?.methods && !route.methods.includes(request.method ?? 'GET')) return methodNotAllowed(route.methods);
  try {
    return route ? await route.answer(request) : notFound;
  } catch (error) {
    if (error instanceof CallerGone) return undefined;
    onError(error);
    return plain(500, 'Internal Server Error\n');
  }
}

/** Whether the query says `verbose`. */
export const isVerbose = ({ url = '' }: HttpRequest): boolean =>
  new URL(url, 'http://weir').searchParams.has('verbose');
