import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a page answers. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  /** Further headers, in visible ASCII. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A path of an HTTP server: what it is for, and what it answers to a request. */
export interface Route {
  readonly help: string;
  answer(request: IncomingMessage): Page | Promise<Page>;
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
 * Serves pages by their exact path, whatever the method. Other paths are answered by the route at `/`; without one, 404.
 *
 * @param onError  told of what a page threw; the client gets a 500 without the reason
 * @throws Error   when the address cannot be bound
 */
export async function startHttpServer(
  { host, port }: { readonly host: string; readonly port: number },
  routes: ReadonlyMap<string, Route>,
  onError: (error: unknown) => void,
): Promise<HttpServer> {
  let closing = false;
  let underWay = 0;
  const server = createServer((request, response) => {
    const [path = '/'] = (request.url ?? '/').split('?');
    const route = routes.get(path) ?? routes.get('/');
    const page = route ? answer(route, request, onError) : Promise.resolve(plain(404, '404 page not found\n'));
    underWay++;
    response.once('close', () => {
      underWay--;
      if (closing && underWay === 0) server.closeAllConnections();
    });
    page
      .then((found) => {
        if (closing) response.setHeader('connection', 'close');
        send(response, found);
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
        if (underWay === 0) server.closeAllConnections(); // those that never asked anything, too
      }),
  };
}

async function answer(route: Route, request: IncomingMessage, onError: (error: unknown) => void): Promise<Page> {
  try {
    return await route.answer(request);
  } catch (error) {
    if (request.readableAborted) return plain(400, 'Bad Request\n'); // the client has gone; nobody reads this
    onError(error);
    return plain(500, 'Internal Server Error\n');
  }
}

function send(response: ServerResponse, { status, contentType, body, headers }: Page): void {
  response.writeHead(status, { ...headers, 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

/** Whether the query says `verbose`. */
export const isVerbose = ({ url = '' }: IncomingMessage): boolean =>
  new URL(url, 'http://weir').searchParams.has('verbose');

/** The body as text, or undefined when it is longer than `maximumBytes`. */
export async function readBody(request: IncomingMessage, maximumBytes: number): Promise<string | undefined> {
  let body = Buffer.allocUnsafe(Math.min(FIRST_BUFFER_BYTES, maximumBytes));
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    const needed = length + chunk.length;
    if (needed > maximumBytes) return undefined;
    if (needed > body.length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(needed, body.length * 2), maximumBytes));
      body.copy(larger, 0, 0, length);
      body = larger;
    }
    length += chunk.copy(body, length); // copied, since a sender may cut a body into millions of chunks
  }
  return body.toString('utf8', 0, length);
}

const FIRST_BUFFER_BYTES = 64 * 1024;
