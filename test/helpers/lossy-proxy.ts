import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from './process.ts';

/**
 * What is lost of requests that change counters, and of all later traffic of their connections.
 *
 * replies              the server counts them; the connection stays open, and is silent
 * replies, closing     the server counts them; the connection is closed instead of the reply
 * requests             they never reach the server; the connection stays open, and is silent
 */
export const losses = ['replies', 'replies, closing', 'requests'] as const;
export type Loss = (typeof losses)[number];

/** A TCP proxy on 127.0.0.1 that loses requests or replies on command. */
export interface LossyProxy {
  readonly port: number;
  /** The number of connections that have lost something. */
  readonly affected: number;
  /** The number of open connections. */
  readonly connections: number;
  /** @param what  undefined: nothing more, on connections that have lost nothing yet */
  lose(what: Loss | undefined): void;
  close(): Promise<void>;
}

/** Calls of scripts, and memcached's commands that store. */
const CHANGES = /EVAL|^(?:cas|add) /im;

/** @param to  the port of the server on 127.0.0.1 */
export async function startLossyProxy(to: number): Promise<LossyProxy> {
  const port = await freePort();
  const sockets = new Set<Socket>();
  let losing: Loss | undefined;
  let affected = 0;
  const proxy = createServer((client) => {
    const server = connect(to, '127.0.0.1');
    let lost: Loss | undefined;
    const end = (): void => {
      for (const socket of [client, server]) {
        sockets.delete(socket);
        socket.destroy();
      }
    };
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', end).on('close', end);
    }
    client.on('data', (request) => {
      if (losing && !lost && CHANGES.test(request.toString('latin1'))) {
        lost = losing;
        affected++;
      }
      if (lost !== 'requests') server.write(request);
    });
    server.on('data', (reply) => {
      if (lost === 'replies, closing') end();
      else if (!lost) client.write(reply);
    });
  });
  proxy.listen(port, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    port,
    get affected() {
      return affected;
    },
    get connections() {
      return sockets.size / 2; // each has one to the server
    },
    lose(what) {
      losing = what;
    },
    async close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
      await once(proxy, 'close');
    },
  };
}
