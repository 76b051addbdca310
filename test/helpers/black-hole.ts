import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Stoppable } from './stoppable.ts';
import { tcpSockets } from './tcp-sockets.ts';
import { until } from './until.ts';

/** A network that drops every packet to a server: connections get neither an answer nor a reset. */
export interface BlackHole {
  /** Makes the server reachable again; resolves when it has taken what waited, so that there is room for others. */
  end(): Promise<void>;
}

const POLL_MS = 20;
/** Enough to fill the longest accept queue of a test server. */
const MAX_FILLERS = 4_096;
const BATCH = 32;

/**
 * Makes a server on 127.0.0.1 unreachable: stops its process, so that open connections stay silent, and fills its
 * accept queue, so that the kernel drops the SYN of every further connection, as a network outage would.
 */
export async function startBlackHole(
  server: Pick<Stoppable, 'pause' | 'resume'> & { readonly port: number },
): Promise<BlackHole> {
  server.pause();
  const fillers: Socket[] = [];
  while (!hasUnanswered(server.port)) {
    if (fillers.length >= MAX_FILLERS) throw new Error(`port ${server.port} still takes connections`);
    for (let left = BATCH; left > 0; left--) fillers.push(connect(server.port, '127.0.0.1').on('error', () => {}));
    await sleep(POLL_MS);
  }
  return {
    async end() {
      for (const filler of fillers) filler.destroy();
      server.resume();
      await until('the server takes connections', () => waiting(server.port) === 0);
    },
  };
}

/** Whether a connection to the port has an unanswered SYN: on the same machine, an answer would arrive at once. */
const hasUnanswered = (port: number): boolean =>
  tcpSockets().some(({ state, remotePort }) => state === 'SYN_SENT' && remotePort === port);

/** The number of connections that a server has not accepted yet. */
const waiting = (port: number): number =>
  tcpSockets().find(({ state, localPort }) => state === 'LISTEN' && localPort === port)?.unread ?? 0;
