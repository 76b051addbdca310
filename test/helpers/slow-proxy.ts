import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from './process.ts';

/** A TCP proxy on 127.0.0.1 that delays everything. */
export interface SlowProxy {
  /** 127.0.0.1:<port> */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * @param to             the port of the server on 127.0.0.1
 * @param roundTripMs  the delay of a request and its reply together
 */
export async function startSlowProxy(to: number, roundTripMs: number): Promise<SlowProxy> {
  const port = await freePort();
  const sockets = new Set<Socket>();
  const forward = (from: Socket, into: Socket): void => {
    sockets.add(from);
    from.setNoDelay();
    from.on('data', (bytes) => setTimeout(() => into.write(bytes), roundTripMs / 2)); // equal delays keep the order
    from.on('error', () => {}).on('close', () => into.destroy());
    from.on('close', () => sockets.delete(from));
  };
  const proxy = createServer((client) => {
    const server = connect(to, '127.0.0.1');
    forward(client, server);
    forward(server, client);
  });
  proxy.listen(port, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    url: `127.0.0.1:${port}`,
    async close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
      await once(proxy, 'close');
    },
  };
}
