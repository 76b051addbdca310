import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { eventually } from './until.ts';

/** A client that sends arbitrary octets, and keeps what it receives. */
export interface RawClient {
  readonly socket: Socket;
  /** Resolves when the connection has ended, no matter which side ended it. */
  readonly ended: Promise<void>;
  received(): string;
  write(text: string | Buffer): void;
  /** Resolves when the received text contains `text` at least `times` times. */
  receives(text: string, times?: number): Promise<void>;
}

export async function rawClient(port: number): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let received = '';
  socket.on('error', () => {}); // a reset also ends the connection
  socket.on('data', (data) => {
    received += data;
  });
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await once(socket, 'connect');
  return {
    socket,
    ended,
    received: () => received,
    write: (text) => void socket.write(text),
    receives: (text, times = 1) =>
      eventually(
        () => received.split(text).length > times,
        () => `received no ${times} × ${JSON.stringify(text)}, but ${JSON.stringify(received.slice(0, 1_000))}`,
      ),
  };
}
