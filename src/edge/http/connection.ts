import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { takeOver } from '../../h2/listen/taken-socket.ts';
import { type InputTurns, REQUEST_UNITS } from './input-turns.ts';
import type { HttpRequest } from './request.ts';

/** Memory of a connection without requests: its socket, parser, partial head and one read, without kernel buffers. */
export const CONNECTION_BYTES = 20 * 1024;

export interface ConnectionBounds {
  /** Maximum unfinished requests; more end the connection. */
  readonly maxRequestsInFlight: number;
  /** Time after which clients that do not read their responses are disconnected. */
  readonly outputTimeoutMs: number;
  /**
   * Whether a request has a checked token, so that its connection is never replaced while all others may be at any
   * time. Default: connections without open requests may be replaced.
   */
  readonly isChecked?: ((request: HttpRequest) => boolean) | undefined;
}

/** A connection's access to its server. */
interface ConnectionContext {
  /** Pacing of input, if any. */
  readonly turns: InputTurns | undefined;
  /** Called for each accepted request when its response is closed. */
  readonly onClosed: () => void;
}

/** A connection of an HTTP server, with its requests in flight and its memory. */
export class HttpConnection {
  readonly #socket: PacedSocket;
  readonly #account: MemoryAccount;
  readonly #bounds: ConnectionBounds;
  readonly #context: ConnectionContext;
  readonly #requests = new Set<HttpRequest>();
  #bytes: number;
  #outputTimer: NodeJS.Timeout | undefined;
  /** Whether a request arrived since the previous check. */
  #wasUsed = false;
  /** Whether a request had a checked token. */
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
      this.#watchOutput(); // for the next response in the pipeline, which Node has passed to the socket
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

  /** Sends the start of an endless body. Parts for a client that does not read are dropped: they take no memory. */
  follow(response: ServerResponse, start: Buffer) {
    const write = (part: Buffer): boolean => {
      if (response.destroyed || response.writableLength > 0) return false;
      this.#watchOutput(); // stops the timer of the previous part, which has been read
      response.write(part);
      this.#watchOutput();
      return true;
    };
    response.on('drain', this.#watchOutput);
    response.write(start);
    return { write, onClosed: (listener: () => void) => void response.once('close', listener) };
  }

  /** Records whether the connection is idle. Call about once a second. @returns whether it is */
  checkIdle(): boolean {
    const isIdle = this.#isIdle;
    this.#account.markIdle(isIdle && !this.#isChecked);
    if (!isIdle && this.#mayBeReplaced) this.#account.markIdle(true); // after idle ones
    this.#wasUsed = false;
    return isIdle;
  }

  /** Ends the connection in favour of a new one. @returns false if it must not be ended */
  retire(): boolean {
    if (!this.#mayBeReplaced) return false;
    this.#socket.destroy();
    return true;
  }

  /** Ends the connection that holds most when memory is full. */
  reset(): void {
    this.#socket.destroy();
  }

  get #mayBeReplaced(): boolean {
    return !this.#isChecked && (this.#bounds.isChecked !== undefined || this.#isIdle);
  }

  /** Whether a request may have been read that waits for its turn. */
  get #isIdle(): boolean {
    const { writableLength, waitsForTurn } = this.#socket;
    return this.#requests.size === 0 && !this.#wasUsed && writableLength === 0 && !waitsForTurn?.();
  }

  /** Closes all responses after the socket closed, since Node closes only the first of a pipeline. */
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

/** Size of a read, small since a read is handled whole and kept if its turn has not come. */
const READ_BYTES = 4_096;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** A socket whose input may have to wait. */
interface PacedSocket extends Socket {
  /** Whether input must wait for its turn, even if it was read. Absent if it never waits. */
  readonly waitsForTurn?: () => boolean;
}

/**
 * Takes over a connection that a server accepted with `pauseOnConnect`, so that its input is handled only while a turn
 * has work left. Other input stays in the kernel, except for one read.
 *
 * Node's HTTP server resumes a socket whenever it takes a piece of a body, which the socket defers until its turn.
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
