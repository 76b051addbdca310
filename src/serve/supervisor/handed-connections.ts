import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { BindAddress } from '../../h2/listen/listener.ts';
import type { ToWorker } from '../link/messages.ts';

/** A worker to which connections are passed. */
export interface Taker {
  send(message: ToWorker, connection?: Socket): void;
}

/** An address at which the supervisor listens for workers. */
interface Door {
  readonly at: string;
  readonly server: Server;
  readonly bound: Promise<unknown>;
  /** The worker whose turn it is comes first. */
  readonly takers: Taker[];
  /** Connections that no worker has room for, oldest first. */
  readonly waiting: Socket[];
}

/** A connection that was passed to a worker, which has not answered yet. */
interface Handed {
  readonly door: Door;
  readonly taker: Taker;
  readonly connection: Socket;
}

/** Connections on their way to a worker; one that sleeps or is busy takes no more than these from the others. */
export const MAX_ON_THE_WAY = 4;

/**
 * Listens for the workers, and passes connections on to them in turn. A connection stays open here until its worker has
 * it, so that those on the way to a worker that ends go to another one.
 */
export class HandedConnections {
  readonly #doors = new Map<string, Door>();
  readonly #handed = new Map<number, Handed>();
  #count = 0;

  /**
   * Passes connections to this address on to the worker as well.
   *
   * @param at  the door, which all workers share
   * @returns   the port
   * @throws Error if the address cannot be bound
   */
  async listen(at: string, address: BindAddress, taker: Taker): Promise<number> {
    const door = this.#doors.get(at) ?? this.#open(at, address);
    await door.bound;
    if (this.#doors.get(at) !== door) return this.listen(at, address, taker); // all others have left
    door.takers.push(taker);
    this.#passOn(door);
    const bound = door.server.address() as AddressInfo | string; // it listens
    return typeof bound === 'string' ? 0 : bound.port;
  }

  /** Passes the worker no more connections of this door, which is closed after the last one. */
  leave(at: string, taker: Taker): void {
    const door = this.#doors.get(at);
    if (door) this.#remove(door, taker);
  }

  /** The worker has answered. @param isTaken  false if another one must take the connection */
  answered(number: number, isTaken: boolean): void {
    const handed = this.#handed.get(number);
    if (!handed) return;
    this.#handed.delete(number);
    if (isTaken)
      handed.connection.destroy(); // the worker's stays open
    else handed.door.waiting.unshift(handed.connection);
    this.#passOn(handed.door);
    for (const door of this.#doors.values()) this.#passOn(door);
  }

  /** The worker has ended, and its answers have been read. */
  ended(taker: Taker): void {
    for (const door of this.#doors.values()) this.#remove(door, taker);
    for (const [number, handed] of this.#handed) if (handed.taker === taker) this.answered(number, false);
  }

  #open(at: string, address: BindAddress): Door {
    const server = createServer({ pauseOnConnect: true }, (connection) => {
      connection.on('error', () => {}); // it is closed then
      door.waiting.push(connection);
      this.#passOn(door);
    });
    server.listen(address);
    const bound = once(server, 'listening').catch((error) => {
      this.#doors.delete(at);
      throw error;
    });
    const door: Door = { at, server, bound, takers: [], waiting: [] };
    this.#doors.set(at, door);
    return door;
  }

  #remove(door: Door, taker: Taker): void {
    const at = door.takers.indexOf(taker);
    if (at >= 0) door.takers.splice(at, 1);
    if (at < 0 || door.takers.length > 0) return;
    this.#doors.delete(door.at);
    door.server.close();
    for (const connection of door.waiting.splice(0)) connection.destroy();
  }

  #passOn(door: Door): void {
    const { takers, waiting } = door;
    if (takers.length === 0) for (const connection of waiting.splice(0)) connection.destroy();
    for (let [connection] = waiting; connection; [connection] = waiting) {
      const at = takers.findIndex((taker) => this.#onTheWayTo(taker) < MAX_ON_THE_WAY);
      const [taker] = at < 0 ? [] : takers.splice(at, 1);
      if (!taker) return;
      takers.push(taker);
      waiting.shift();
      const number = this.#count++;
      this.#handed.set(number, { door, taker, connection });
      taker.send({ kind: 'connection', at: door.at, number }, connection);
    }
  }

  #onTheWayTo(taker: Taker): number {
    let count = 0;
    for (const handed of this.#handed.values()) if (handed.taker === taker) count++;
    return count;
  }
}
