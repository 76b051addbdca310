import type { Socket } from 'node:net';
import { takeOver } from '../taken-socket.ts';

/** As much as libuv reads at once. */
const READ_BYTES = 65_536;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** Node calls `callback` as a method of the socket that has read; so all sockets can have the same. */
const onread = {
  buffer: shared,
  callback(this: Socket, length: number): boolean {
    this.emit('data', shared.subarray(0, length));
    return true;
  },
};

/**
 * Takes over a connection that a server has accepted with `pauseOnConnect`, so that it reads into a buffer that all
 * connections share. Otherwise Node allocates a buffer for each read, and a flood of input fills memory faster than it
 * is collected.
 *
 * @returns a socket whose chunks are valid only during their 'data' event; `accepted` itself, resumed, if this version
 *   of Node keeps its handle elsewhere
 */
export function readIntoSharedBuffer(accepted: Socket): Socket {
  return takeOver(accepted, onread) ?? accepted.resume();
}
