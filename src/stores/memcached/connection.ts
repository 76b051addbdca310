import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { StoreState } from '../store.ts';
import { BrokenProtocol, isError, type Reply, ReplyReader } from './replies.ts';

export interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  /** Undefined: plain text. */
  readonly tls: ConnectionOptions | undefined;
  /** Told of each connection that is ready, and of what ends or prevents one. */
  onReady(): void;
  onError(error: Error): void;
}

/** A server that leaves a call unanswered for so long is given up, with all that waits on it, and connected to anew. */
const SILENCE_MS = 1_000;
const MAX_RETRY_MS = 1_000;

interface Pending {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

/** A connection that opens itself again for ever. Calls are sent as they come and answered in their order; no call is sent twice. */
export class Connection {
  private readonly settings: ConnectionSettings;
  private socket: Socket | undefined;
  private isReady = false;
  private isClosed = false;
  private lastError = 'not connected yet';
  private attempt = 0;
  private retry: NodeJS.Timeout | undefined;
  private readonly pending: Pending[] = [];

  constructor(settings: ConnectionSettings) {
    this.settings = settings;
    this.open();
  }

  /** Rejects at once while there is no connection, and with what the server refuses. */
  call(...parts: readonly (string | Buffer)[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (!this.isReady || !this.socket) {
        reject(new Error(`no connection to ${this.address}: ${this.lastError}`));
        return;
      }
      this.pending.push({ resolve, reject });
      if (this.pending.length === 1) this.socket.setTimeout(SILENCE_MS);
      this.socket.write(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))));
    });
  }

  state(): StoreState {
    return this.isReady ? { ready: true } : { ready: false, reason: `${this.address}: ${this.lastError}` };
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.retry);
    this.socket?.destroy();
  }

  private get address(): string {
    return `${this.settings.host}:${this.settings.port}`;
  }

  private open(): void {
    const { host, port, tls } = this.settings;
    const socket = tls ? connectTls({ ...tls, host, port }) : connect(port, host);
    const reader = new ReplyReader();
    this.socket = socket;
    socket.setNoDelay(true);
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      this.isReady = true;
      this.attempt = 0;
      this.settings.onReady();
    });
    socket.on('data', (piece: Buffer) => this.receive(socket, reader, piece));
    socket.on('timeout', () => socket.destroy(new Error(`no reply within ${SILENCE_MS} ms`)));
    socket.on('error', (error: Error) => {
      this.lastError = error.message;
    });
    socket.once('close', () => this.lost());
  }

  private receive(socket: Socket, reader: ReplyReader, piece: Buffer): void {
    try {
      for (const reply of reader.read(piece)) this.answer(reply);
      socket.setTimeout(this.pending.length > 0 ? SILENCE_MS : 0);
    } catch (error) {
      if (!(error instanceof BrokenProtocol)) throw error;
      socket.destroy(error);
    }
  }

  private answer(reply: Reply): void {
    const first = this.pending.shift();
    if (!first) throw new BrokenProtocol('a reply came that nobody waits for');
    if (typeof reply === 'string' && isError(reply)) first.reject(new Error(reply));
    else first.resolve(reply);
  }

  private lost(): void {
    this.isReady = false;
    const error = new Error(`connection to ${this.address} lost: ${this.lastError}`);
    for (const { reject } of this.pending.splice(0)) reject(error);
    if (this.isClosed) return;
    this.settings.onError(error);
    const waitMs = Math.min(50 * 2 ** Math.min(this.attempt++, 5), MAX_RETRY_MS);
    this.retry = setTimeout(() => this.open(), waitMs + Math.random() * waitMs * 0.1).unref();
  }
}
