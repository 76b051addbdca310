import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Stoppable } from './stoppable.ts';

/** A network that loses every packet to a server: nothing on it is answered, and nothing is refused. */
export interface BlackHole {
  /** The network is back. */
  end(): void;
}

const POLL_MS = 20;
/** Enough for the longest queue that a server of the tests has. */
const MAX_FILLERS = 4_096;
const BATCH = 32;
/** What /proc/net/tcp says of a connection whose first packet has had no answer. */
const SYN_SENT = '02';

/**
 * Makes a server of 127.0.0.1 unreachable. It is stopped, so that open connections stay silent, and its queue of connections to accept
 * is filled, so that the kernel drops the first packet of every further one, as a network does that is down.
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
    end() {
      for (const filler of fillers) filler.destroy();
      server.resume();
    },
  };
}

/** Whether a connection to the port is being opened: on one machine, an answer would have come at once. */
const hasUnanswered = (port: number): boolean =>
  readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .some((line) => {
      const [, , remote = '', state] = line.trim().split(/\s+/);
      return state === SYN_SENT && Number.parseInt(remote.split(':')[1] ?? '', 16) === port;
    });
