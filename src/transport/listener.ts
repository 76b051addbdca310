import cluster from 'node:cluster';
import { once } from 'node:events';
import { lstat, unlink } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import type { CallerMemory, MemoryAccount } from '../overload/caller-memory.ts';
import type { Certificates } from './certificates.ts';

/** Where a server listens: a port of TCP, 0 for any free one, or a unix socket at this path. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

/** What a server shows its clients, and wants of them. */
export interface TlsOptions {
  readonly certificates: Certificates;
  /** A DNS name that a client's certificate must be for; undefined: any that the client authority signed will do. */
  readonly clientName: string | undefined;
}

/** What a listener accepts. */
export interface Accepting {
  /** Connections at a time: those beyond are closed at once. */
  readonly maxCount?: number | undefined;
  /** Charged with what connections take: one that has no room is closed at once. */
  readonly memory: CallerMemory;
  /**
   * A connection can be used; `account` is its own.
   *
   * @returns what ends it when its account is reset
   */
  readonly onConnection: (socket: Socket, account: MemoryAccount) => () => void;
  readonly onTooMany?: (() => void) | undefined;
}

/** The memory of an idle connection: its socket, and what reads and writes frames; with TLS, what OpenSSL keeps too. `npm run attack` measures both. */
const PLAIN_BYTES = 16_384;
const TLS_BYTES = 81_920;
/** A client that does not complete its TLS handshake within this time is disconnected. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** TLS handshakes at a time; a new one ends the oldest: honest ones take milliseconds. */
const MAX_HANDSHAKES = 256;

/** Accepts connections. */
export interface Listener {
  /** Where it listens, as gRPC clients write it: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/weir.sock`. */
  readonly target: string;
  /** Accepts no more; resolves when the last connection has ended. */
  close(): Promise<void>;
  /** Ends every connection, whether or not its handshake is over. */
  destroyAll(): void;
}

/**
 * Listens for connections, and hands over each one that may be used: over TLS, HTTP/2 by ALPN, once its handshake is over.
 * A unix socket that a server has left behind is taken over; it is removed at the end. In a worker of a cluster neither is done: there the
 * primary process has the socket, for all of them.
 *
 * @throws Error  the address cannot be bound, or another server has the socket
 */
export async function listen(address: Address, tls: TlsOptions | undefined, accepting: Accepting): Promise<Listener> {
  const { maxCount, onTooMany } = accepting;
  const accounts = createAccounts(accepting, tls !== undefined);
  const server = tls ? createSecureServer(tls, accounts) : createServer(accounts.use);
  if (maxCount !== undefined) server.maxConnections = maxCount;
  server.on('drop', () => onTooMany?.());
  server.prependListener('connection', accounts.open); // before it is used
  if ('path' in address && cluster.isPrimary) await removeStaleSocket(address.path);
  server.listen(address);
  await once(server, 'listening'); // rejects with what comes as 'error' instead
  return {
    target: 'path' in address ? `unix:${address.path}` : targetOf(address.host, server),
    close: () => new Promise((resolve) => server.close(() => resolve())),
    destroyAll() {
      for (const socket of accounts.sockets()) socket.destroy();
    },
  };
}

/** The memory accounts of sockets, from their first moment on. */
function createAccounts({ memory, onConnection, onTooMany }: Accepting, isTls: boolean) {
  const open = new Map<Socket, { readonly account: MemoryAccount; reset: () => void }>();
  return {
    sockets: () => open.keys(),
    open(socket: Socket): void {
      const entry = { reset: () => void socket.destroy() };
      const account = memory.open(isTls ? TLS_BYTES : PLAIN_BYTES, () => entry.reset());
      if (!account) {
        onTooMany?.();
        socket.destroy();
        return;
      }
      open.set(socket, Object.assign(entry, { account }));
      socket.once('close', () => {
        open.delete(socket);
        account.close();
      });
    },
    /** @param socket  can be used now; `raw` is the socket below it */
    use(socket: Socket, raw: Socket = socket): void {
      const entry = open.get(raw);
      if (entry) entry.reset = onConnection(socket, entry.account);
      else socket.destroy();
    },
  };
}
type Accounts = ReturnType<typeof createAccounts>;

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
    if (clientName === undefined || isFor(clientName, socket)) accounts.use(socket, raw);
    else socket.destroy();
  });
  server.on('connection', (raw) => {
    handshakes.add(raw);
    raw.once('close', () => handshakes.delete(raw));
    if (handshakes.size > MAX_HANDSHAKES) for (const oldest of handshakes) return void oldest.destroy();
  });
  const forget = certificates.onChange((changed) => server.setSecureContext({ ...options, ...changed }));
  return server.once('close', forget);
}

/** By the names of its SAN extension alone: what a common name means is anybody's guess. */
const isFor = (name: string, socket: TLSSocket): boolean =>
  socket.getPeerX509Certificate()?.checkHost(name, { subject: 'never' }) !== undefined;

function targetOf(host: string, server: Server): string {
  const bound = server.address();
  const port = typeof bound === 'object' && bound ? bound.port : 0;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Removes a unix socket that a server has left behind, so that another can listen there.
 *
 * @throws Error  something else is there, or another server has the socket
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

/** Only a socket that nobody listens on refuses a connection; one that this process must not open, say, is in use. */
async function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ECONNREFUSED'; // as a socket's errors are
  } finally {
    socket.destroy();
  }
}
