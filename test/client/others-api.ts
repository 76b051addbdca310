import { createServer, type IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { closeLater, listen } from './service.ts';

/** A request that an API has received. */
export interface ReceivedRequest {
  readonly atMs: number;
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** An answer to a request; `cut`: the connection ends without one. */
export type ApiAnswer =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  | 'cut';

/** Another service's API: gives the listed answers, then 200. */
export async function startApi(...answers: readonly ApiAnswer[]) {
  const received: ReceivedRequest[] = [];
  const server = createServer(async (request, response) => {
    const { method, url: path, headers } = request;
    const atMs = performance.now();
    const answer = answers[received.length] ?? { status: 200 };
    const at = received.push({ atMs, method, path, headers, body: '' }) - 1;
    const body = await text(request);
    received[at] = { atMs, method, path, headers, body };
    if (answer === 'cut') return void request.socket.destroy();
    response.writeHead(answer.status, answer.headers).end(answer.body ?? `answer ${at}`);
  });
  closeLater(() => server.closeAllConnections());
  return { origin: `http://127.0.0.1:${await listen(server)}`, received };
}
