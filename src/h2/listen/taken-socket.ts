import { Socket } from 'node:net';

/** The `onread` option of a socket. */
interface OnRead {
  /** Buffer that every read overwrites. */
  readonly buffer: Buffer;
  /** Called as a method of the socket. @returns false to pause reading until the socket is resumed */
  readonly callback: (this: Socket, length: number) => boolean;
}

/**
 * Moves a connection that a server has accepted to a socket that reads into the given buffer. The server counts it as
 * open for ever.
 *
 * @returns undefined if this version of Node does not expose its handle as expected
 * @see https://nodejs.org/api/net.html#new-netsocketoptions `onread`, which `net.createServer` does not accept
 */
export function takeOver(accepted: Socket, onread: OnRead): Socket | undefined {
  const internals = accepted as unknown as { _handle: unknown }; // it has no public name
  const handle = internals._handle;
  if (!handle) return undefined;
  internals._handle = null;
  return new Socket({ handle, onread } as ConstructorParameters<typeof Socket>[0]);
}

/** Octets that libuv reads in one call. */
const READ_BYTES = 65_536;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** Shared by all sockets, since Node calls `callback` as a method of the socket that has read. */
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
