import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * Lets a client use the server on this port of 127.0.0.1. Resolves with all bytes that it sent on its one connection.
 */
export async function record(port: number, speak: (port: number) => Promise<void>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const sockets: Socket[] = [];
  const proxy = createServer((socket) => {
    const server = connect(port, '127.0.0.1');
    sockets.push(socket, server);
    for (const one of [socket, server]) one.on('error', () => {}); // 'close' comes next
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.pipe(server).pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  try {
    await speak(typeof address === 'object' && address ? address.port : 0);
  } finally {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  }
  if (sockets.length !== 2) throw new Error(`expected one connection, got ${sockets.length / 2}`);
  return Buffer.concat(chunks);
}
