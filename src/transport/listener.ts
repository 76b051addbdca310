import cluster from 'node:cluster';
import { once } from 'node:events';
import { lstat, unlink } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import type { AccountHolder, CallerMemory, MemoryAccount } from '../overload/caller-memory.ts';
import type { Certificates } from './certificates.ts';
import { type RetiredConnection, RetiredConnections } from './retired-connections.ts';
import { readIntoSharedBuffer } from './shared-read-buffer.ts';

/** A TCP port (0: any free one), or the path of a unix socket. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

/** A server's certificates, and its requirements for clients. */
export interface TlsOptions {
  readonly certificates: Certificates;
  /** DNS name that client certificates must have; undefined: any certificate that the client CA signed. */
  readonly clientName: string | undefined;
}

/** A connection that is in use by a server. */
export interface ListenedConnection extends AccountHolder {
  /** Requests are open. Absent: the connection is never retired. */
  readonly isInUse?: boolean;
}

export interface ListenerOptions {
  /** The most open connections; further ones are closed at once. */
  readonly maxCount?: number | undefined;
  /** Charged with the memory of each connection; one without room is closed at once. */
  readonly memory: CallerMemory;
  /**
   * A connection is ready for use.
   *
   * @param account  the connection's memory account
   * @returns the object to reset if the memory account requires it
   */
  readonly onConnection: (socket: Socket, account: MemoryAccount) => ListenedConnection;
  readonly onTooMany?: (() => void) | undefined;
  /** Called when an idle connection was ended for a new one. */
  readonly onRetired?: (() => void) | undefined;
}

/**
 * Memory of an idle connection: socket, frame reader and writer; with TLS, also OpenSSL's buffers. `npm run attack`
 * measures both.
 */
const PLAIN_BYTES = 16_384;
const TLS_BYTES = 81_920;
/** Clients that do not complete the TLS handshake in time are disconnected. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** The most concurrent TLS handshakes; a further one ends the oldest. Legitimate ones take milliseconds. */
const MAX_HANDSHAKES = 256;

export interface Listener {
  /** Its address as a gRPC target: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/weir.sock`. */
  readonly target: string;
  /** Stops accepting; resolves when the last connection has ended. */
  close(): Promise<void>;
  /** Ends every connection, even during its handshake. */
  destroyAll(): void;
}

/**
 * Listens for connections. With TLS, a connection is passed on after its handshake, with HTTP/2 negotiated by ALPN. A
 * stale unix socket is replaced, and the socket is removed on close; in a cluster worker neither happens, since the
 * primary process owns the socket.
 *
 * @throws Error if the address cannot be bound, or another server listens on the socket
 */
export async function listen(
  address: Address,
  tls: TlsOptions | undefined,
  options: ListenerOptions,
): Promise<Listener> {
  const { maxCount, onTooMany } = options;
  const accounts = createAccounts(options, tls !== undefined);
  const server = tls ? createSecureServer(tls, accounts) : createPlainServer(accounts);
  if (maxCount !== undefined) server.maxConnections = maxCount;
  server.on('drop', () => onTooMany?.());
  if ('path' in address && cluster.isPrimary) await removeStaleSocket(address.path);
  server.listen(address);
  await once(server, 'listening'); // rejects on 'error'
  return {
    target: 'path' in address ? `unix:${address.path}` : targetOf(address.host, server),
    close: () => new Promise((resolve) => server.close(() => resolve())),
    destroyAll() {
      for (const socket of accounts.sockets()) socket.destroy();
    },
  };
}

/** The memory account of each socket, opened as soon as it is accepted. */
function createAccounts({ memory, onConnection, onTooMany, onRetired }: ListenerOptions, isTls: boolean) {
  const open = new Map<Socket, Accepted>();
  const baseBytes = isTls ? TLS_BYTES : PLAIN_BYTES;
  const retired = new RetiredConnections(baseBytes, memory.maxBytes);
  const onRetire = (accepted: Accepted): void => {
    if (accepted.connection) retired.add(accepted); // others are destroyed already
    onRetired?.();
  };
  return {
    sockets: () => open.keys(),
    open(socket: Socket): void {
      const accepted = new Accepted(socket, onRetire);
      const account = memory.open(baseBytes, accepted);
      if (!account) {
        onTooMany?.();
        socket.destroy();
        return;
      }
      accepted.account = account;
      open.set(socket, accepted);
      socket.on('close', () => {
        open.delete(socket);
        retired.delete(accepted);
        account.close();
      });
    },
    /** @param raw  the TCP socket below a TLS socket */
    use(socket: Socket, raw: Socket = socket): void {
      const accepted = open.get(raw);
      if (accepted?.account) accepted.connection = onConnection(socket, accepted.account);
      else socket.destroy();
    },
  };
}
type Accounts = ReturnType<typeof createAccounts>;

/** A connection, from when it is accepted: its handshake is first. */
class Accepted implements AccountHolder, RetiredConnection {
  readonly #socket: Socket;
  readonly #onRetire: (accepted: Accepted) => void;
  account: MemoryAccount | undefined;
  connection: ListenedConnection | undefined;

  constructor(socket: Socket, onRetire: (accepted: Accepted) => void) {
    this.#socket = socket;
    this.#onRetire = onRetire;
  }

  get isInUse(): boolean {
    return this.connection?.isInUse === true;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  reset(): void {
    if (this.connection) this.connection.reset();
    else this.destroy();
  }

  retire(): boolean {
    if (!this.connection) this.destroy();
    else if (!this.connection.retire?.()) return false;
    this.#onRetire(this);
    return true;
  }
}

const createPlainServer = (accounts: Accounts): Server =>
  createServer({ pauseOnConnect: true }, (accepted) => {
    const socket = readIntoSharedBuffer(accepted);
    accounts.open(socket);
    accounts.use(socket);
  });

function createSecureServer({ certificates, clientName }: TlsOptions, accounts: Accounts): Server {
  const options = {
    ...certificates.current(),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['h2'],
    requestCert: certificates.current().ca !== undefined,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  } as const;
  const handshakes = new Set<Socket>();
  const server = createTlsServer(options, (socket) => {
    const { _parent: raw } = socket as TLSSocket & { readonly _parent: Socket }; // Node has no public name for it
    handshakes.delete(raw);
    if (clientName === undefined || matchesName(clientName, socket)) accounts.use(socket, raw);
    else socket.destroy();
  });
  server.prependListener('connection', (raw) => {
    accounts.open(raw);
    handshakes.add(raw);
    raw.once('close', () => handshakes.delete(raw));
    if (handshakes.size > MAX_HANDSHAKES) destroyFirst(handshakes);
  });
  const forget = certificates.onChange((changed) => server.setSecureContext({ ...options, ...changed }));
  return server.once('close', forget);
}

function destroyFirst(sockets: Set<Socket>): void {
  const first = sockets.values().next().value;
  if (!first) return;
  sockets.delete(first); // it emits 'close' only in a later turn
  first.destroy();
}

/** Checks only subject alternative names: the meaning of a common name is not defined. */
const matchesName = (name: string, socket: TLSSocket): boolean =>
  socket.getPeerX509Certificate()?.checkHost(name, { subject: 'never' }) !== undefined;

function targetOf(host: string, server: Server): string {
  const bound = server.address();
  const port = typeof bound === 'object' && bound ? bound.port : 0;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Removes a unix socket on which no process listens.
 *
 * @throws Error if the path is not a socket, or another process listens on it
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (!found) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is not a socket`);
  if (await isListenedOn(path)) throw new Error(`another process listens on ${path}`);
  await unlink(path);
}

/** Only a stale socket refuses connections; any other error, such as missing permission, counts as in use. */
async function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ECONNREFUSED'; // socket errors have a code
  } finally {
    socket.destroy();
  }
}
