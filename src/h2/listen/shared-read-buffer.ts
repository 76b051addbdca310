import type { Socket } from 'node:net';
import { takeOver } from './taken-socket.ts';

/** The number of octets that libuv reads at once. */
const READ_BYTES = 65_536;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** Shared by all sockets: Node calls `callback` as a method of the socket that has read. */
const onread = {
  buffer: shared,
  callback(this: Socket, length: number): boolean {
    this.emit('data', shared.subarray(0, length));
    return true;
  },
};

/**
 * Moves a connection that a server has accepted with `pauseOnConnect` to a socket that reads into a buffer shared by
 * all connections. Otherwise, Node allocates a buffer for each read, and a flood of input fills memory faster than it
 * is collected.
 *
 * @returns a socket whose chunks are valid only during their 'data' event; `accepted` itself, resumed, if this version
 * of Node does not expose its handle as expected
 */
export function readIntoSharedBuffer(accepted: Socket): Socket {
  return takeOver(accepted, onread) ?? accepted.resume();
}
