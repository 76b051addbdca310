import { type Server, Socket } from 'node:net';

/** As much as libuv reads at once. */
const READ_BYTES = 65_536;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** What `node:net` keeps on a socket and has no public name for. */
interface Internals {
  _handle: unknown;
  _server: Server | null;
  server: Server | null;
}

/**
 * Takes over a connection that a server has accepted with `pauseOnConnect`, so that it reads into a buffer that all
 * connections share. Otherwise Node allocates a buffer for each read, and a flood of input fills memory faster than it
 * is collected.
 *
 * @returns a socket whose chunks are valid only during their 'data' event; `accepted` itself, resumed, if this version
 *   of Node keeps its handle elsewhere
 * @see https://nodejs.org/api/net.html#new-netsocketoptions `onread`, which `net.createServer` cannot be given
 */
export function readIntoSharedBuffer(accepted: Socket): Socket {
  const internals = accepted as unknown as Internals;
  const { _handle: handle, _server: server } = internals;
  if (!handle) return accepted.resume();
  internals._handle = null;
  internals._server = null;
  const onread = {
    buffer: shared,
    callback(length: number): boolean {
      socket.emit('data', shared.subarray(0, length));
      return true;
    },
  };
  const socket: Socket = new Socket({ handle, onread } as ConstructorParameters<typeof Socket>[0]);
  return Object.assign(socket, { _server: server, server }); // the server counts its connections by it
}
