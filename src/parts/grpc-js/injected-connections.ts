import type { Socket } from 'node:net';
import { type Server, ServerCredentials } from '@grpc/grpc-js';
import { intermittent } from '../../base/clock.ts';
import type { MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import type { ListenedConnection } from '../../h2/listen/listener.ts';

const CHECK_INTERVAL_MS = 1_000;

/** Number of consecutive checks without input after which a client counts as idle. */
const QUIET_CHECKS = 10;

/** Passes the connections of a listener, which terminates TLS, to a server of grpc-js. */
export function injectConnections(server: Server) {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const connections = new Set<InjectedConnection>();
  const checks = intermittent(CHECK_INTERVAL_MS, () => {
    for (const connection of connections) connection.check();
    return connections.size > 0;
  });
  return {
    onConnection(socket: Socket, account: MemoryAccount): ListenedConnection {
      const connection = new InjectedConnection(socket, account);
      connections.add(connection);
      socket.once('close', () => connections.delete(connection));
      injector.injectConnection(socket);
      checks.wake();
      return connection;
    },
    /** Sends GOAWAY on all connections. */
    drain: () => injector.destroy(),
  };
}

/** A connection of grpc-js, which does not report open calls, so it counts as in use while its client sends. */
class InjectedConnection implements ListenedConnection {
  readonly #socket: Socket;
  readonly #account: MemoryAccount;
  #seenBytes = 0;
  #quietChecks = 0;

  constructor(socket: Socket, account: MemoryAccount) {
    this.#socket = socket;
    this.#account = account;
  }

  check(): void {
    const { bytesRead } = this.#socket;
    this.#quietChecks = bytesRead === this.#seenBytes ? this.#quietChecks + 1 : 0;
    this.#seenBytes = bytesRead;
    this.#account.markIdle(this.#isIdle);
  }

  reset(): void {
    this.#socket.destroy();
  }

  retire(): boolean {
    if (!this.#isIdle) return false;
    this.#socket.destroy();
    return true;
  }

  get #isIdle(): boolean {
    const { bytesRead } = this.#socket;
    return bytesRead === 0 || (bytesRead === this.#seenBytes && this.#quietChecks >= QUIET_CHECKS);
  }
}
