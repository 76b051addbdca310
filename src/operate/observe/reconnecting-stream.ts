import { connect, type Socket } from 'node:net';
import { Writable } from 'node:stream';

interface ReconnectingStreamOptions {
  readonly host: string;
  readonly port: number;
  onUp(): void;
  /** Called each time the connection is lost or cannot be established. */
  onDown(error: Error): void;
}

/** Delay before reconnecting; doubled after each failed attempt, up to the longest. */
const RECONNECT_AFTER_MS = 1_000;
const LONGEST_RECONNECT_MS = 8_000;
/** Limit of unsent data; beyond it nothing is accepted. */
const MAX_UNSENT_BYTES = 1024 * 1024;
/** A connection whose server reads nothing for this long is ended. */
const STALLED_AFTER_MS = 10_000;
/** How long unsent data may take to be sent when the stream ends. */
const END_TIMEOUT_MS = 500;

/** A TCP connection that is re-established when lost. Writes while it is down are dropped. */
export class ReconnectingStream extends Writable {
  private socket: Socket | undefined;
  private retry: NodeJS.Timeout | undefined;
  private retryAfterMs = RECONNECT_AFTER_MS;
  private readonly options: ReconnectingStreamOptions;

  constructor(options: ReconnectingStreamOptions) {
    super();
    this.options = options;
    this.connect();
  }

  /** Whether data written now would be sent. */
  accepts(): boolean {
    return this.socket?.readyState === 'open' && this.socket.writableLength <= MAX_UNSENT_BYTES;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.socket?.readyState === 'open') this.socket.write(chunk);
    done(); // at once: `accepts` provides back-pressure
  }

  override _destroy(_error: Error | null, done: () => void): void {
    clearTimeout(this.retry);
    const { socket } = this;
    if (!socket || socket.destroyed) {
      done();
      return;
    }
    const timer = setTimeout(() => socket.destroy(), END_TIMEOUT_MS);
    socket.once('close', () => {
      clearTimeout(timer);
      done();
    });
    if (socket.connecting) socket.destroy();
    else socket.end(() => socket.destroy());
  }

  private connect(): void {
    const socket = connect(this.options.port, this.options.host);
    this.socket = socket;
    let reason = new Error('it closed the connection');
    socket.unref().setKeepAlive(true).setTimeout(STALLED_AFTER_MS);
    socket.on('connect', () => {
      this.retryAfterMs = RECONNECT_AFTER_MS;
      this.options.onUp();
    });
    socket.on('error', (error) => {
      reason = error;
    });
    socket.on('timeout', () => {
      if (socket.writableLength > 0) socket.destroy(new Error(`it read nothing for ${STALLED_AFTER_MS} ms`));
    });
    socket.on('close', () => {
      if (this.destroyed) return;
      this.options.onDown(reason);
      this.retry = setTimeout(() => this.connect(), this.retryAfterMs).unref();
      this.retryAfterMs = Math.min(this.retryAfterMs * 2, LONGEST_RECONNECT_MS);
    });
    socket.resume(); // discards input, so that the end is noticed
  }
}
