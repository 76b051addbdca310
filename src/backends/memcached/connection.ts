import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { Monotonic } from '../../clock.ts';
import type { BackendHealth } from '../backend.ts';
import { BrokenProtocol, isError, type MemcachedReply, ReplyReader } from './replies.ts';

export interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  /** Undefined: plain text. */
  readonly tls: ConnectionOptions | undefined;
  readonly monotonicMs: Monotonic;
  /** Called when a connection is ready, and when one fails or ends. */
  onReady(): void;
  onError(error: Error): void;
}

/**
 * A server that says nothing for so long while calls wait is given up, with all that waits on it, and connected to
 * anew.
 */
const SILENCE_MS = 1_000;
/** The longest wait between two attempts to connect. With the time of an attempt it comes to less than a second. */
const MAX_RETRY_MS = 250;
/** How long the first connection may take to open: after that it is known how long they take. */
const FIRST_CONNECT_MS = 5_000;
/**
 * The shortest time that an attempt is given: packets that were lost with the network are not sent again for a second.
 */
const MIN_CONNECT_MS = 500;
/** An attempt is given so many times what the slowest connection so far took. */
const CONNECT_MARGIN = 4;

interface Pending {
  resolve(reply: MemcachedReply): void;
  reject(error: Error): void;
}

/**
 * A connection that opens itself again for ever. Calls are sent as they come and answered in their order; no call is
 * sent twice.
 */
export class Connection {
  private readonly settings: ConnectionSettings;
  private socket: Socket | undefined;
  private isReady = false;
  private wasReady = false;
  private isClosed = false;
  private lastError = 'not connected yet';
  private attempt = 0;
  private retry: NodeJS.Timeout | undefined;
  /** Fires when the server has been silent, or an attempt to connect has taken, too long. Writes do not put it off. */
  private replyTimeout: NodeJS.Timeout | undefined;
  private slowestConnectMs = FIRST_CONNECT_MS / CONNECT_MARGIN;
  private readonly pending: Pending[] = [];

  constructor(settings: ConnectionSettings) {
    this.settings = settings;
    this.open();
  }

  /** Rejects at once while there is no connection, and with what the server refuses. */
  call(...parts: readonly (string | Buffer)[]): Promise<MemcachedReply> {
    return new Promise((resolve, reject) => {
      if (!this.isReady || !this.socket) {
        reject(new Error(`no connection to ${this.address}: ${this.lastError}`));
        return;
      }
      this.pending.push({ resolve, reject });
      if (this.pending.length === 1) this.expect(this.socket, SILENCE_MS);
      this.socket.write(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))));
    });
  }

  health(): BackendHealth {
    return this.isReady ? { ready: true } : { ready: false, reason: `${this.address}: ${this.lastError}` };
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.retry);
    clearTimeout(this.replyTimeout);
    this.socket?.destroy();
  }

  private get address(): string {
    return `${this.settings.host}:${this.settings.port}`;
  }

  private open(): void {
    const { host, port, tls, monotonicMs } = this.settings;
    const socket = tls ? connectTls({ ...tls, host, port }) : connect(port, host);
    const reader = new ReplyReader();
    this.socket = socket;
    socket.setNoDelay(true);
    const startedMs = monotonicMs();
    this.expect(socket, Math.max(CONNECT_MARGIN * this.slowestConnectMs, MIN_CONNECT_MS));
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      const tookMs = monotonicMs() - startedMs;
      this.slowestConnectMs = this.wasReady ? Math.max(this.slowestConnectMs, tookMs) : tookMs;
      clearTimeout(this.replyTimeout);
      this.isReady = true;
      this.wasReady = true;
      this.attempt = 0;
      this.settings.onReady();
    });
    socket.on('data', (piece: Buffer) => this.receive(socket, reader, piece));
    socket.on('error', (error: Error) => {
      this.lastError = error.message;
    });
    socket.once('close', () => this.lost());
  }

  private expect(socket: Socket, withinMs: number): void {
    clearTimeout(this.replyTimeout);
    this.replyTimeout = setTimeout(
      () => socket.destroy(new Error(`no reply within ${Math.ceil(withinMs)} ms`)),
      withinMs,
    );
    this.replyTimeout.unref();
  }

  private receive(socket: Socket, reader: ReplyReader, piece: Buffer): void {
    try {
      for (const reply of reader.read(piece)) this.answer(reply);
      if (this.pending.length > 0) this.expect(socket, SILENCE_MS);
      else clearTimeout(this.replyTimeout);
    } catch (error) {
      if (!(error instanceof BrokenProtocol)) throw error;
      socket.destroy(error);
    }
  }

  private answer(reply: MemcachedReply): void {
    const first = this.pending.shift();
    if (!first) throw new BrokenProtocol('received a reply without a request');
    if (typeof reply === 'string' && isError(reply)) first.reject(new Error(reply));
    else first.resolve(reply);
  }

  private lost(): void {
    this.isReady = false;
    clearTimeout(this.replyTimeout);
    const error = new Error(`connection to ${this.address} lost: ${this.lastError}`);
    for (const { reject } of this.pending.splice(0)) reject(error);
    if (this.isClosed) return;
    this.settings.onError(error);
    const waitMs = Math.min(50 * 2 ** Math.min(this.attempt++, 3), MAX_RETRY_MS);
    this.retry = setTimeout(() => this.open(), waitMs + Math.random() * waitMs * 0.1).unref();
  }
}
