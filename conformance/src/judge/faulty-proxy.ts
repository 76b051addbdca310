import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What a proxy does to the connections of clients. */
export interface Faults {
  /** Bytes are passed on after a delay of up to this, which differs by connection and direction. */
  readonly longestDelayMs: number;
  /** A connection is cut after a time of up to this; 0: never. */
  readonly longestLifeMs: number;
  /** The share of connections whose answers stop, while requests pass on: half of it is open. */
  readonly halfOpenShare: number;
}

/** Faults of a bad network. */
export const FAULTS: Faults = { longestDelayMs: 20, longestLifeMs: 4_000, halfOpenShare: 0.1 };

/** A TCP proxy with faults, between clients and a server. */
export class FaultyProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(host: string, port: number, faults: Faults, random: () => number) {
    this.#server = createServer((client) => this.#join(client, connect(port, host), faults, random));
  }

  /** @param target  `host:port` of the server */
  static async open(target: string, faults: Faults, random: () => number = Math.random): Promise<FaultyProxy> {
    const at = target.lastIndexOf(':');
    const proxy = new FaultyProxy(target.slice(0, at), Number(target.slice(at + 1)), faults, random);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** `host:port` for clients. */
  get target(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #join(client: Socket, server: Socket, faults: Faults, random: () => number): void {
    const pair = [client, server];
    const end = (): void => {
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) {
      this.#sockets.add(socket.setNoDelay());
      socket
        .on('error', end)
        .on('close', end)
        .on('close', () => this.#sockets.delete(socket));
    }
    const isHalfOpen = random() < faults.halfOpenShare;
    const lifeMs = random() * faults.longestLifeMs;
    passOn(client, server, random() * faults.longestDelayMs, () => false);
    const bornMs = performance.now();
    passOn(
      server,
      client,
      random() * faults.longestDelayMs,
      () => isHalfOpen && performance.now() - bornMs > lifeMs / 2,
    );
    if (faults.longestLifeMs > 0) setTimeout(end, lifeMs).unref();
  }
}

/** Passes bytes on in order, each after a delay, unless they are lost. */
function passOn(from: Socket, to: Socket, delayMs: number, isLost: () => boolean): void {
  from.on('data', (bytes) => {
    if (isLost()) return;
    setTimeout(() => void (to.destroyed || to.write(bytes)), delayMs);
  });
}
