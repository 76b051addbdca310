import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MemoryAccount } from '../overload/caller-memory.ts';
import type { HttpRequest } from './request.ts';

/** What a connection costs by itself: socket, parser, and a head of which only a part has come. Buffers of the kernel are not counted. */
export const CONNECTION_BYTES = 20 * 1024;

export interface ConnectionBounds {
  /** Requests of a connection whose responses are not closed. More than that end the connection. */
  readonly maxRequestsInFlight: number;
  /** A client that takes longer to read its responses is disconnected. */
  readonly outputTimeoutMs: number;
}

/** A connection of an HTTP server: its requests in flight, and what it makes this process hold. */
export class HttpConnection {
  readonly #socket: Socket;
  readonly #account: MemoryAccount;
  readonly #bounds: ConnectionBounds;
  readonly #onClosed: () => void;
  readonly #requests = new Set<HttpRequest>();
  #bytes = CONNECTION_BYTES;
  #outputTimer: NodeJS.Timeout | undefined;

  /** @param onClosed  called for each request that `open` accepted, when its response is closed */
  constructor(socket: Socket, account: MemoryAccount, bounds: ConnectionBounds, onClosed: () => void) {
    this.#socket = socket;
    this.#account = account;
    this.#bounds = bounds;
    this.#onClosed = onClosed;
  }

  /** @returns whether the request is to be answered; if not, the connection is ending */
  open(request: HttpRequest, response: ServerResponse): boolean {
    if (this.#socket.destroyed) return false; // the parser goes on to the end of what it has
    if (this.#requests.size >= this.#bounds.maxRequestsInFlight) {
      this.#socket.destroy();
      return false;
    }
    this.#requests.add(request);
    request.open(this.#hold);
    response.once('finish', () => {
      request.close(true);
      this.#watchOutput(); // of the response behind it, which Node has given to the socket
    });
    response.once('close', () => this.#close(request));
    return true;
  }

  /** Sends a body, which is charged for until the socket has taken it. */
  send(request: HttpRequest, response: ServerResponse, body: Buffer): void {
    request.charge(body.length);
    response.end(body);
    this.#watchOutput();
  }

  /** The socket has closed. Node closes only the response that was to be sent next; those behind it in a pipeline are closed here. */
  end(): void {
    clearTimeout(this.#outputTimer);
    for (const request of this.#requests) this.#close(request);
    this.#account.close();
  }

  #close(request: HttpRequest): void {
    if (!this.#requests.delete(request)) return;
    request.close(false);
    this.#onClosed();
  }

  readonly #hold = (bytes: number): void => {
    this.#bytes += bytes;
    this.#account.set(this.#bytes);
  };

  /** Gives the client its time from when output waits for it until none does. */
  readonly #watchOutput = (): void => {
    if (this.#socket.writableLength === 0) {
      clearTimeout(this.#outputTimer);
      this.#outputTimer = undefined;
    } else this.#outputTimer ??= setTimeout(() => this.#socket.destroy(), this.#bounds.outputTimeoutMs);
  };
}
