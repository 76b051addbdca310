import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { takeOver } from '../../h2/listen/taken-socket.ts';
import { type InputTurns, REQUEST_UNITS } from './input-turns.ts';
import type { HttpRequest } from './request.ts';

/** Memory of a connection without requests: socket, parser, a partial head, a read. Kernel buffers are not counted. */
export const CONNECTION_BYTES = 20 * 1024;

export interface ConnectionBounds {
  /** Unfinished requests; more end the connection. */
  readonly maxRequestsInFlight: number;
  /** Clients that take longer to read their responses are disconnected. */
  readonly outputTimeoutMs: number;
  /**
   * Whether a request has a checked token: its connection is never ended for a new one, all others may be at any time.
   * Undefined: those without open requests may be.
   */
  readonly isChecked?: ((request: HttpRequest) => boolean) | undefined;
}

/** A connection's access to its server. */
interface ConnectionContext {
  /** Undefined: input is not paced. */
  readonly turns: InputTurns | undefined;
  /** Called for each accepted request when its response is closed. */
  readonly onClosed: () => void;
}

/** A connection of an HTTP server: its requests in flight and its memory. */
export class HttpConnection {
  readonly #socket: PacedSocket;
  readonly #account: MemoryAccount;
  readonly #bounds: ConnectionBounds;
  readonly #context: ConnectionContext;
  readonly #requests = new Set<HttpRequest>();
  #bytes: number;
  #outputTimer: NodeJS.Timeout | undefined;
  /** A request has come since the previous check. */
  #wasUsed = false;
  /** A request had a checked token. */
  #isChecked = false;

  constructor(socket: PacedSocket, account: MemoryAccount, bounds: ConnectionBounds, context: ConnectionContext) {
    this.#socket = socket;
    this.#account = account;
    this.#bytes = account.baseBytes;
    this.#bounds = bounds;
    this.#context = context;
  }

  /** @returns false if the request must not be answered, since the connection is ending */
  open(request: HttpRequest, response: ServerResponse): boolean {
    this.#context.turns?.spend(REQUEST_UNITS);
    if (this.#socket.destroyed) return false; // the parser continues to the end of its input
    if (this.#requests.size >= this.#bounds.maxRequestsInFlight) {
      this.#socket.destroy();
      return false;
    }
    this.#requests.add(request);
    this.#wasUsed = true;
    this.#isChecked ||= this.#bounds.isChecked?.(request) === true;
    if (this.#requests.size === 1) request.markFirst();
    request.open(this.#charge, this.#context.turns);
    response.once('finish', () => {
      request.close(true);
      this.#watchOutput(); // of the next response in the pipeline, which Node has passed to the socket
    });
    response.once('close', () => this.#close(request));
    return true;
  }

  /** Sends a body; its memory is charged until the response is closed. */
  send(request: HttpRequest, response: ServerResponse, body: Buffer): void {
    request.charge(body.length);
    response.end(body);
    this.#watchOutput();
  }

  /**
   * Sends the start of an endless body. Parts for a client that does not read them are dropped, so that they take no
   * memory.
   */
  follow(response: ServerResponse, start: Buffer) {
    const write = (part: Buffer): boolean => {
      if (response.destroyed || response.writableLength > 0) return false;
      this.#watchOutput(); // the previous part has been read: stops its timer
      response.write(part);
      this.#watchOutput();
      return true;
    };
    response.on('drain', this.#watchOutput);
    response.write(start);
    return { write, onClosed: (listener: () => void) => void response.once('close', listener) };
  }

  /** Records whether the connection is idle. To be called about once a second. @returns whether it is */
  checkIdle(): boolean {
    const isIdle = this.#isIdle;
    this.#account.markIdle(isIdle && !this.#isChecked);
    if (!isIdle && this.#mayBeReplaced) this.#account.markIdle(true); // after those that are idle
    this.#wasUsed = false;
    return isIdle;
  }

  /** Ends the connection for a new one. @returns false if it must not be ended */
  retire(): boolean {
    if (!this.#mayBeReplaced) return false;
    this.#socket.destroy();
    return true;
  }

  /** Ends the connection: the memory account is full, and this connection holds most. */
  reset(): void {
    this.#socket.destroy();
  }

  get #mayBeReplaced(): boolean {
    return !this.#isChecked && (this.#bounds.isChecked !== undefined || this.#isIdle);
  }

  /** A request may have been read that waits for its turn. */
  get #isIdle(): boolean {
    const { writableLength, waitsForTurn } = this.#socket;
    return this.#requests.size === 0 && !this.#wasUsed && writableLength === 0 && !waitsForTurn?.();
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
    if (this.#requests.size === 0 || this.#socket.destroyed) return;
    for (const next of this.#requests) return next.markFirst();
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

/** The size of a read. Small, since a read is handled whole, and kept if its turn has not come. */
const READ_BYTES = 4_096;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** A connection's socket whose input may have to wait. */
interface PacedSocket extends Socket {
  /** Whether input, read or not, must wait for its turn. If absent, it never waits. */
  readonly waitsForTurn?: () => boolean;
}

/**
 * Takes over a connection that a server has accepted with `pauseOnConnect`, so that its input is handled only while a
 * turn has room. Other input stays in the kernel, except for one read.
 *
 * Node's HTTP server resumes a socket whenever it takes a piece of a body: until its turn, the socket only notes that.
 *
 * @returns a socket whose chunks are valid only during their 'data' event; `accepted` itself, resumed, if this
 *   version of Node keeps its handle elsewhere
 */
export function pacedSocket(accepted: Socket, turns: InputTurns): PacedSocket {
  let kept: Buffer | undefined;
  let isWaiting = false;
  let isPaused = false;

  const callback = (length: number): boolean => {
    if (!turns.hasRoom || isWaiting) {
      const read = shared.subarray(0, length);
      kept = ownCopy(kept ? Buffer.concat([kept, read]) : read);
    } else {
      handle(shared.subarray(0, length));
      if (turns.hasRoom) return true;
    }
    waitForTurn();
    return false;
  };
  const socket = takeOver(accepted, { buffer: shared, callback });
  if (!socket) return accepted.resume();

  const handle = (bytes: Buffer): void => {
    turns.spend(bytes.length);
    socket.emit('data', bytes);
  };
  const waitForTurn = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    turns.wait(proceed);
  };
  const proceed = (): void => {
    isWaiting = false;
    if (socket.destroyed || isPaused) return;
    const bytes = kept;
    kept = undefined;
    if (bytes) handle(bytes);
    if (isPaused || socket.destroyed) return;
    if (turns.hasRoom) Socket.prototype.resume.call(socket);
    else waitForTurn();
  };
  return Object.assign(socket, {
    waitsForTurn: () => isWaiting,
    pause(): Socket {
      isPaused = true;
      return Socket.prototype.pause.call(socket);
    },
    resume(): Socket {
      isPaused = false;
      if (kept) waitForTurn();
      return isWaiting ? socket : Socket.prototype.resume.call(socket);
    },
  });
}
