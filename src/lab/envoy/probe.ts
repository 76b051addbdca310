import { connect, type Socket } from 'node:net';
import type { HostAddress } from './cluster.ts';

const TIMEOUT_MS = 2_000;

/** Connects to an address, then closes the connection. @returns why the address cannot be reached */
export const probeAddress = (address: HostAddress): Promise<string | undefined> =>
  new Promise((resolve) => {
    let socket: Socket;
    try {
      socket = connect(address);
    } catch (error) {
      resolve(error instanceof Error ? error.message : String(error)); // a path that is too long, a port out of range
      return;
    }
    socket.setTimeout(TIMEOUT_MS);
    socket.once('connect', () => resolve(undefined));
    socket.once('timeout', () => resolve(`no connection in ${TIMEOUT_MS / 1_000} s`));
    socket.once('error', (error) => resolve(error.message));
    for (const event of ['connect', 'timeout'] as const) socket.once(event, () => socket.destroy());
  });
