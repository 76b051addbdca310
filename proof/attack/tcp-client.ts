import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Ledger } from './ledger.ts';

interface TcpOptions {
  readonly port: number;
  /** TLS with ALPN h2; accepts any certificate. */
  readonly tls?: boolean;
  /** Receives the bytes read. Default: they are dropped. */
  readonly onData?: (bytes: Buffer) => void;
}

/** A connection of an attacker, which counts bytes and ignores failures. */
export class TcpClient {
  readonly socket: Socket;
  readonly #ledger: Ledger;
  /** Resolves when the connection has ended, or could not be made. */
  readonly closed: Promise<void>;
  isClosed = false;

  constructor(options: TcpOptions, ledger: Ledger) {
    const { port, tls = false, onData } = options;
    this.socket = tls
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] })
      : connect({ port, host: '127.0.0.1' });
    this.#ledger = ledger;
    this.socket.setNoDelay(true);
    ledger.opened();
    this.closed = new Promise((resolve) => {
      this.socket.once('close', () => {
        this.isClosed = true;
        ledger.closed();
        resolve();
      });
    });
    this.socket.on('error', () => {}); // 'close' comes next
    this.socket.on('data', onData ?? (() => {}));
  }

  /** Resolves when the connection is open, or has failed. */
  async opened(): Promise<void> {
    const event = 'encrypted' in this.socket ? 'secureConnect' : 'connect';
    await Promise.race([this.closed, new Promise<void>((resolve) => this.socket.once(event, () => resolve()))]);
  }

  /**
   * Resolves when the operating system has accepted all bytes.
   *
   * @returns false if the connection has ended
   */
  async send(bytes: Uint8Array): Promise<boolean> {
    if (this.isClosed || !this.socket.writable) return false;
    return new Promise((resolve) => {
      this.socket.write(bytes, (error) => {
        if (!error) this.#ledger.sent(bytes.length);
        resolve(!error && !this.isClosed);
      });
    });
  }

  /** Stops reading from the socket. */
  stopReading(): void {
    this.socket.pause();
  }

  close(): void {
    this.socket.destroy();
  }
}
