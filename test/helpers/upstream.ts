import { once } from 'node:events';
import { Agent, createServer, type RequestListener, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An HTTP server on 127.0.0.1 that a proxy protects. */
export class Upstream {
  readonly #server: Server;

  constructor(answer: RequestListener) {
    this.#server = createServer(answer);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port; // a TCP server
  }

  /** @returns its port */
  async listen(): Promise<number> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    return this.port;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** Sends one request on a new connection. @returns the status; undefined: it was aborted or reset */
export function requestStatus(
  port: number,
  headers: Readonly<Record<string, string>>,
  abortAfterMs?: number,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, headers, agent: new Agent() }, (answer) => {
      answer
        .resume()
        .once('error', () => resolve(undefined))
        .once('close', () => resolve(answer.statusCode));
    });
    asked.once('error', () => resolve(undefined)).end();
    if (abortAfterMs !== undefined) setTimeout(() => asked.destroy(), abortAfterMs);
  });
}
