import { once } from 'node:events';
import { lstat, unlink } from 'node:fs/promises';
import { connect, createServer, isIPv6, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import type { AccountHolder, CallerMemory, MemoryAccount } from '../bounds/caller-memory.ts';
import type { Certificates } from './certificates.ts';
import { type RetiredConnection, RetiredConnections } from './retired-connections.ts';
import { readIntoSharedBuffer } from './taken-socket.ts';

/** A TCP port, 0 for any free one, or the path of a unix socket. `exclusive`: this process listens itself, as in Node. */
export type Address =
  | { readonly host: string; readonly port: number; readonly exclusive?: boolean }
  | { readonly path: string };

/** What is bound: without a host, a port of every address. */
export type BindAddress = { readonly host?: string; readonly port: number } | { readonly path: string };

/** A server's certificates, and its requirements for clients. */
export interface TlsOptions {
  readonly certificates: Pick<Certificates, 'current' | 'onChange'>;
  /** DNS name that client certificates must have; undefined to accept any certificate that the client CA signed. */
  readonly clientName: string | undefined;
  /** Protocol negotiated by ALPN; default: h2. */
  readonly protocol?: 'h2' | 'http/1.1';
}

/** A connection that a server has taken over. */
export interface ListenedConnection extends AccountHolder {
  /** Whether requests are open. Absent if the connection is never retired. */
  readonly isInUse?: boolean;
}

interface ListenerOptions {
  /** Maximum number of open connections; a further one replaces an idle one, or is closed. */
  readonly maxCount?: number | undefined;
  /** Account of each connection's memory; a connection beyond the limit is closed. */
  readonly memory: CallerMemory;
  /** Memory of an idle connection without TLS. Default: 16 KiB. */
  readonly plainBytes?: number;
  /** Moves a paused connection without TLS to another socket, whose chunks may be valid only during 'data'. */
  readonly takeSocket?: ((accepted: Socket) => Socket) | undefined;
  /**
   * Called when a connection is ready for use.
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
 * Memory of an idle connection for socket, frame reader and writer; with TLS, also for OpenSSL's buffers. `npm run
 * attack` measures both.
 */
const PLAIN_BYTES = 16_384;
const TLS_BYTES = 81_920;
/** Time after which clients that have not completed the TLS handshake are disconnected. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Maximum concurrent TLS handshakes; a further one ends the oldest. Legitimate ones take milliseconds. */
const MAX_HANDSHAKES = 256;
/** Idle time before the first TCP keepalive probe, which detects vanished clients. */
const TCP_KEEP_ALIVE_MS = 60_000;
const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: TCP_KEEP_ALIVE_MS } as const;

/** Listens in another process, which passes connections on. */
export interface Acceptor {
  /** @throws Error if the address cannot be bound */
  listen(
    address: BindAddress,
    take: (connection: Socket) => void,
  ): Promise<{
    readonly port: number;
    /** No more connections are passed on. */
    close(): void;
  }>;
}

let acceptor: Acceptor | undefined;

/** Leaves listening, for all servers of this process, to another one. */
export const acceptBy = (other: Acceptor): void => {
  acceptor = other;
};

export type Listener = Awaited<ReturnType<typeof listen>>;

/**
 * Accepts connections on one address. Every port of the service uses it, so sockets are counted from their first
 * packet; with TLS, a connection is passed on after its handshake. A stale unix socket is replaced, and the socket is
 * removed on close, unless another process listens.
 *
 * @throws Error if the address cannot be bound, or another server listens on the socket
 */
export async function listen(address: Address, tls: TlsOptions | undefined, options: ListenerOptions) {
  const accounts = createAccounts(options, tls !== undefined);
  const server = tls ? createSecureServer(tls, accounts) : createPlainServer(accounts, options.takeSocket);
  const door = await bind(server, address);
  return {
    /** Its address as a gRPC target: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/service.sock`. */
    target: 'path' in address ? `unix:${address.path}` : formatTarget(address.host, door.port),
    /** TCP port; 0 for a unix socket. */
    port: door.port,
    /** Stops accepting; resolves when the last connection has ended. */
    async close(): Promise<void> {
      door.close?.();
      server.close();
      await accounts.closed();
    },
    /** Ends every connection, including those in a handshake. */
    destroyAll(): void {
      for (const socket of accounts.sockets()) socket.destroy();
    },
  };
}

async function bind(server: Server, address: Address): Promise<{ readonly port: number; readonly close?: () => void }> {
  const at = 'host' in address && EVERY_ADDRESS.has(address.host) ? { port: address.port } : address;
  const isExclusive = 'exclusive' in address && address.exclusive === true;
  if (acceptor && !isExclusive)
    return acceptor.listen(at, (connection) => {
      connection.setNoDelay(socketOptions.noDelay).setKeepAlive(true, TCP_KEEP_ALIVE_MS);
      server.emit('connection', connection);
    });
  if ('path' in address) await removeStaleSocket(address.path);
  server.listen(at);
  await once(server, 'listening'); // rejects on 'error'
  return { port: tcpPort(server) };
}

/** Without a host, Node listens on IPv6 and IPv4, or on IPv4 only where there is no IPv6. */
const EVERY_ADDRESS: ReadonlySet<string> = new Set(['', '0.0.0.0', '::']);

/** The memory account of each socket, opened as soon as it is accepted. */
function createAccounts(
  { maxCount, memory, plainBytes = PLAIN_BYTES, onConnection, onTooMany, onRetired }: ListenerOptions,
  isTls: boolean,
) {
  const open = new Map<Socket, Accepted>();
  const port = maxCount === undefined ? undefined : memory.limit(maxCount);
  const baseBytes = isTls ? TLS_BYTES : plainBytes;
  const retired = new RetiredConnections(baseBytes, memory.maxBytes, memory.maxConnections);
  const onRetire = (accepted: Accepted): void => {
    if (accepted.connection) retired.add(accepted); // others are destroyed already
    onRetired?.();
  };
  return {
    sockets: () => open.keys(),
    /** Resolves when all have ended. */
    async closed(): Promise<void> {
      for (const socket of open.keys()) await new Promise((resolve) => socket.once('close', resolve));
    },
    open(socket: Socket): void {
      const accepted = new Accepted(socket, onRetire);
      const account = memory.open(baseBytes, accepted, port);
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

/** An accepted connection, possibly still in its handshake. */
class Accepted implements AccountHolder, RetiredConnection {
  readonly #socket: Socket;
  readonly #onRetire: (accepted: Accepted) => void;
  readonly peer: string;
  account: MemoryAccount | undefined;
  connection: ListenedConnection | undefined;

  constructor(socket: Socket, onRetire: (accepted: Accepted) => void) {
    this.#socket = socket;
    this.peer = peerName(socket.remoteAddress);
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

const createPlainServer = (accounts: Accounts, takeSocket = readIntoSharedBuffer): Server =>
  createServer({ ...socketOptions, pauseOnConnect: true }, (accepted) => {
    const socket = takeSocket(accepted);
    accounts.open(socket);
    accounts.use(socket);
  });

function createSecureServer({ certificates, clientName, protocol = 'h2' }: TlsOptions, accounts: Accounts): Server {
  const options = {
    ...certificates.current(),
    ...socketOptions,
    minVersion: 'TLSv1.2',
    ALPNProtocols: [protocol],
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

/** Checks only subject alternative names, as the meaning of a common name is not defined. */
const matchesName = (name: string, socket: TLSSocket): boolean =>
  socket.getPeerX509Certificate()?.checkHost(name, { subject: 'never' }) !== undefined;

/** `127.0.0.1:8081`, `[::1]:8081` */
export const formatTarget = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

function tcpPort(server: Server): number {
  const bound = server.address();
  return typeof bound === 'object' && bound ? bound.port : 0;
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

/** Whether a process listens. Only a stale socket refuses; others, such as a missing permission, count as in use. */
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

export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

type SocketPeer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/** The client of a connection; undefined on unix sockets, and after its end. */
export function peerAddress({ remoteAddress, remotePort: port = 0 }: SocketPeer): PeerAddress | undefined {
  if (remoteAddress === undefined) return undefined;
  const host = remoteAddress.includes('.') ? remoteAddress.slice(remoteAddress.lastIndexOf(':') + 1) : remoteAddress;
  return { host, port };
}

/** Groups of an IPv6 address that identify a client, which chooses the other half freely. */
const NETWORK_GROUPS = 4;
const GROUPS = 8;

/** Name under which a client's connections are counted; empty, and so the same for all, on unix sockets. */
export function peerName(address = ''): string {
  if (!isIPv6(address)) return address;
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1); // an IPv4 address in IPv6's form
  const [before = [], after = []] = address.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const zeros = Array.from({ length: GROUPS - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].slice(0, NETWORK_GROUPS).join(':');
}
