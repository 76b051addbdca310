import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Stoppable } from './stoppable.ts';

/** A network that drops every packet to a server: connections get neither an answer nor a reset. */
export interface BlackHole {
  /** Makes the server reachable again. */
  end(): void;
}

const POLL_MS = 20;
/** Enough to fill the longest accept queue of a test server. */
const MAX_FILLERS = 4_096;
const BATCH = 32;
/** The state in /proc/net/tcp of a connection whose SYN is unanswered. */
const SYN_SENT = '02';

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
    end() {
      for (const filler of fillers) filler.destroy();
      server.resume();
    },
  };
}

/** Whether a connection to the port has an unanswered SYN: on the same machine, an answer would arrive at once. */
const hasUnanswered = (port: number): boolean =>
  readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .some((line) => {
      const [, , remote = '', state] = line.trim().split(/\s+/);
      return state === SYN_SENT && Number.parseInt(remote.split(':')[1] ?? '', 16) === port;
    });
