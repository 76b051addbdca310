import { connect, type Socket } from 'node:net';
import { Writable } from 'node:stream';

export interface ReconnectingStreamOptions {
  readonly host: string;
  readonly port: number;
  onUp(): void;
  /** Once each time that the connection is lost or cannot be made. */
  onDown(error: Error): void;
}

/** How long after a failure it is tried again. */
const RECONNECT_AFTER_MS = 1_000;
/** What may wait to be sent before no more is taken. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** How long a server may take nothing of what waits before the connection is given up. */
const STALLED_AFTER_MS = 10_000;
/** How long what waits is given to leave at the end. */
const END_TIMEOUT_MS = 500;

/** A connection of TCP to a server that may go away and come back. What is written while it is away is dropped. */
export class ReconnectingStream extends Writable {
  private socket: Socket | undefined;
  private retry: NodeJS.Timeout | undefined;
  private readonly options: ReconnectingStreamOptions;

  constructor(options: ReconnectingStreamOptions) {
    super();
    this.options = options;
    this.connect();
  }

  /** Whether what is written now is sent. */
  accepts(): boolean {
    return this.socket?.readyState === 'open' && this.socket.writableLength <= MAX_WAITING_BYTES;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.socket?.readyState === 'open') this.socket.write(chunk);
    done(); // at once: what is taken is this stream's, and nobody waits for it
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
    let trouble = new Error('it closed the connection');
    socket.unref().setKeepAlive(true).setTimeout(STALLED_AFTER_MS);
    socket.on('connect', () => this.options.onUp());
    socket.on('error', (error) => {
      trouble = error;
    });
    socket.on('timeout', () => {
      if (socket.writableLength > 0) socket.destroy(new Error(`it took nothing for ${STALLED_AFTER_MS} ms`));
    });
    socket.on('close', () => {
      if (this.destroyed) return;
      this.options.onDown(trouble);
      this.retry = setTimeout(() => this.connect(), RECONNECT_AFTER_MS).unref();
    });
    socket.resume(); // so that its end is noticed
  }
}
