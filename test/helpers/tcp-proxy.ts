import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from './process.ts';

/** A connection of a client, and the one to the server that belongs to it. */
export interface ProxiedConnection {
  readonly client: Socket;
  readonly server: Socket;
  /** Closes both. */
  end(): void;
}

/** A TCP proxy on 127.0.0.1. */
export interface TcpProxy {
  readonly port: number;
  /** The open connections. */
  readonly connections: ReadonlySet<ProxiedConnection>;
  close(): Promise<void>;
}

/**
 * @param to       the port of the server on 127.0.0.1
 * @param forward  called for each new connection, to pass on what either side sends
 */
export async function startTcpProxy(to: number, forward: (connection: ProxiedConnection) => void): Promise<TcpProxy> {
  const port = await freePort();
  const connections = new Set<ProxiedConnection>();
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = connect({ port: to, host: '127.0.0.1', noDelay: true });
    const end = (): void => {
      connections.delete(connection);
      client.destroy();
      server.destroy();
    };
    const connection = { client, server, end };
    connections.add(connection);
    for (const socket of [client, server]) socket.on('error', end).on('close', end);
    forward(connection);
  });
  await once(proxy.listen(port, '127.0.0.1'), 'listening');
  return {
    port,
    connections,
    async close() {
      proxy.close();
      for (const { end } of connections) end();
      await once(proxy, 'close');
    },
  };
}
