import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

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
export interface LossyProxy extends Pick<TcpProxy, 'port' | 'connections' | 'close'> {
  /** The number of connections that have lost something. */
  readonly affected: number;
  /** @param what  undefined: nothing more, on connections that have lost nothing yet */
  lose(what: Loss | undefined): void;
}

/** Calls of scripts, and memcached's commands that store. */
const CHANGES = /EVAL|^(?:cas|add) /im;

/** @param to  the port of the server on 127.0.0.1 */
export async function startLossyProxy(to: number): Promise<LossyProxy> {
  let losing: Loss | undefined;
  let affected = 0;
  const proxy = await startTcpProxy(to, ({ client, server, end }) => {
    let lost: Loss | undefined;
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
  return {
    ...proxy,
    get affected() {
      return affected;
    },
    lose(what) {
      losing = what;
    },
  };
}
