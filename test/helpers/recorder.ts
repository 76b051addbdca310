import { startTcpProxy } from './tcp-proxy.ts';

/**
 * Lets a client use the server on this port of 127.0.0.1. Resolves with all bytes that it sent on its one connection.
 */
export async function record(port: number, speak: (port: number) => Promise<void>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let connections = 0;
  const proxy = await startTcpProxy(port, ({ client, server }) => {
    connections++;
    client.on('data', (chunk) => chunks.push(chunk));
    client.pipe(server).pipe(client);
  });
  await speak(proxy.port).finally(proxy.close);
  if (connections !== 1) throw new Error(`expected one connection, got ${connections}`);
  return Buffer.concat(chunks);
}
