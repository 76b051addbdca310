import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A server that speaks Redis' protocol, for replies that a real Redis does not give. */
export interface RedisPretender {
  readonly port: number;
  close(): void;
}

/** @param answer  the reply to a command, in Redis' protocol; undefined: OK */
export async function startRedisPretender(
  answer: (command: readonly string[], port: number) => string | undefined,
): Promise<RedisPretender> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let rest = '';
    sockets.add(socket.on('error', () => {}));
    socket.on('data', (piece) => {
      rest += piece.toString('latin1');
      for (let read = readCommand(rest); read; read = readCommand(rest)) {
        rest = rest.slice(read.length);
        socket.write(answer(read.command, port) ?? '+OK\r\n');
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a TCP port
  return {
    port,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** The first command of a text and its encoded length; undefined: it is incomplete. */
function readCommand(text: string): { readonly command: readonly string[]; readonly length: number } | undefined {
  const command: string[] = [];
  let at = text.indexOf('\r\n') + 2;
  const count = Number(text.slice(1, at));
  while (command.length < count) {
    const from = text.indexOf('\r\n', at) + 2;
    if (from < 2) return undefined;
    const to = from + Number(text.slice(at + 1, from));
    if (text.length < to + 2) return undefined;
    command.push(text.slice(from, to));
    at = to + 2;
  }
  return count > 0 ? { command, length: at } : undefined;
}
