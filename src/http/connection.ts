import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MemoryAccount } from '../overload/caller-memory.ts';
import { type InputTurns, REQUEST_UNITS } from './input-turns.ts';
import type { HttpRequest } from './request.ts';

/** Memory of a connection without requests: socket, parser, a partial head, a read. Kernel buffers are not counted. */
export const CONNECTION_BYTES = 20 * 1024;

/** Memory of a body in the making besides its piece: what the page is made of, and the state of the compression. */
const STREAM_BYTES = 512 * 1024;

export const sizeOf = (pieces: readonly Buffer[]): number => pieces.reduce((bytes, { length }) => bytes + length, 0);

export interface ConnectionBounds {
  /** Unfinished requests; more end the connection. */
  readonly maxRequestsInFlight: number;
  /** Clients that take longer to read their responses are disconnected. */
  readonly outputTimeoutMs: number;
}

/** What a connection has of its server. */
export interface ConnectionContext {
  readonly turns: InputTurns;
  /** Called for each accepted request when its response is closed. */
  readonly onClosed: () => void;
}

/** A connection of an HTTP server: its requests in flight and its memory. */
export class HttpConnection {
  readonly #socket: Socket;
  readonly #account: MemoryAccount;
  readonly #bounds: ConnectionBounds;
  readonly #context: ConnectionContext;
  readonly #requests = new Set<HttpRequest>();
  #bytes = CONNECTION_BYTES;
  #outputTimer: NodeJS.Timeout | undefined;

  constructor(socket: Socket, account: MemoryAccount, bounds: ConnectionBounds, context: ConnectionContext) {
    this.#socket = socket;
    this.#account = account;
    this.#bounds = bounds;
    this.#context = context;
  }

  /** @returns false if the request must not be answered, since the connection is ending */
  open(request: HttpRequest, response: ServerResponse): boolean {
    this.#context.turns.spend(REQUEST_UNITS);
    if (this.#socket.destroyed) return false; // the parser continues to the end of its input
    if (this.#requests.size >= this.#bounds.maxRequestsInFlight) {
      this.#socket.destroy();
      return false;
    }
    this.#requests.add(request);
    request.open(this.#charge, this.#context.turns);
    response.once('finish', () => {
      request.close(true);
      this.#watchOutput(); // of the next response in the pipeline, which Node has passed to the socket
    });
    response.once('close', () => this.#close(request));
    return true;
  }

  /** Sends a body; its memory is charged until the response is closed. */
  send(request: HttpRequest, response: ServerResponse, body: readonly Buffer[]): void {
    request.charge(sizeOf(body));
    response.cork();
    for (const piece of body) response.write(piece);
    response.end();
    response.uncork();
    this.#watchOutput();
  }

  /**
   * Sends a body whose pieces are made as the client reads them, from when it is this response's turn; one piece is
   * charged at a time.
   */
  async stream(request: HttpRequest, response: ServerResponse, pieces: AsyncIterable<Buffer>): Promise<void> {
    request.charge(STREAM_BYTES);
    const gone = new Promise<void>((resolve) => request.onGone(resolve));
    if (!response.socket) await Promise.race([once(response, 'socket'), gone]);
    try {
      for await (const piece of request.isGone ? [] : pieces) {
        if (request.isGone) return;
        request.charge(STREAM_BYTES + piece.length);
        const isFull = !response.write(piece);
        this.#watchOutput();
        if (isFull) await Promise.race([once(response, 'drain'), gone]);
        this.#watchOutput();
      }
    } catch (error) {
      response.destroy(); // its status is on the way: its missing end shows that it is not whole
      throw error;
    }
    response.end();
    this.#watchOutput();
  }

  /**
   * Sends the start of an endless body. Parts for a client that does not read them are dropped, so that they take no
   * memory.
   */
  follow(response: ServerResponse, start: readonly Buffer[]) {
    const write = (part: Buffer): boolean => {
      if (response.destroyed || response.writableLength > 0) return false;
      this.#watchOutput(); // the part before has been read: its time is over
      response.write(part);
      this.#watchOutput();
      return true;
    };
    response.on('drain', this.#watchOutput);
    for (const piece of start) response.write(piece);
    return { write, onClosed: (listener: () => void) => void response.once('close', listener) };
  }

  /** The socket has closed. Node closes only the first response of a pipeline; the others are closed here. */
  end(): void {
    clearTimeout(this.#outputTimer);
    for (const request of this.#requests) this.#close(request);
    this.#account.close();
  }

  #close(request: HttpRequest): void {
    if (!this.#requests.delete(request)) return;
    request.close(false);
    this.#context.onClosed();
  }

  readonly #charge = (bytes: number): void => {
    this.#bytes += bytes;
    this.#account.set(this.#bytes);
  };

  /** Runs the output timer while output waits for the client. */
  readonly #watchOutput = (): void => {
    if (this.#socket.writableLength === 0) {
      clearTimeout(this.#outputTimer);
      this.#outputTimer = undefined;
    } else this.#outputTimer ??= setTimeout(() => this.#socket.destroy(), this.#bounds.outputTimeoutMs);
  };
}
