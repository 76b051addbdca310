import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from './process.ts';

/** A TCP proxy on 127.0.0.1 that breaks connections on command. */
export interface CuttingProxy {
  readonly port: number;
  /** Breaks each open connection in the middle of the server's next data. */
  cut(): void;
  close(): Promise<void>;
}

/** @param to  the port of the server on 127.0.0.1 */
export async function startCuttingProxy(to: number): Promise<CuttingProxy> {
  const port = await freePort();
  const connections = new Map<Socket, { server: Socket; isToBeCut: boolean }>();
  const proxy = createServer((client) => {
    const connection = { server: connect(to, '127.0.0.1'), isToBeCut: false };
    const { server } = connection;
    connections.set(client, connection);
    const end = (): void => {
      connections.delete(client);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on('error', end).on('close', end);
    client.on('data', (request) => server.write(request));
    server.on('data', (reply) => {
      if (connection.isToBeCut) client.write(reply.subarray(0, Math.floor(reply.length / 2)), end);
      else client.write(reply);
    });
  });
  proxy.listen(port, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    port,
    cut() {
      for (const connection of connections.values()) connection.isToBeCut = true;
    },
    async close() {
      proxy.close();
      for (const [client, { server }] of connections) {
        client.destroy();
        server.destroy();
      }
      await once(proxy, 'close');
    },
  };
}
