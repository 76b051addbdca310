/**
 * The work of side services in one turn of the event loop, over all connections of this process, in addition to each
 * connection's own share. A unit is about 0.1 µs.
 */
const UNITS_A_TURN = 32_768;
/** A connection's own share of each turn, and the share that a waiting one is given at a time. */
export const SHARE_UNITS = 2_048;
/** The number of connections with that share in a turn. */
const FULL_SHARES = 64;
/** The share of each further connection: enough for one short compressed message. */
const SMALL_SHARE_UNITS = 256;

/** A connection whose further input waits for a turn. */
export interface SideWaiter {
  /** Receives a share; continues if it covers the work done so far. */
  proceed(): void;
}

/**
 * Bounds the work in a turn of side services, whose messages are unpacked and handled as they are read; of those with
 * turns in the call queue, the work to unpack messages. One read of each of many connections may hold hundreds of them.
 * Connections that wait are given a share each, in turn. Work beyond the bound is made up for in the next turns.
 */
class SideTurns {
  #unitsLeft = UNITS_A_TURN;
  /** Connections that have begun their own share in this turn. */
  #begun = 0;
  readonly #waiting = new Set<SideWaiter>();
  #next: NodeJS.Immediate | undefined;
  /** Identifies the turn; changes with each turn that has such work. */
  number = 0;

  /** To be called when there is work. */
  wake(): void {
    this.#next ??= setImmediate(this.#begin);
  }

  /** A connection's own share of this turn. To be called once a turn for each connection with work. */
  ownShare(): number {
    return this.#begun++ < FULL_SHARES ? SHARE_UNITS : SMALL_SHARE_UNITS;
  }

  /** @returns whether a connection gets these units as well in this turn: none waits, and the turn has units left */
  take(units: number): boolean {
    if (this.#waiting.size > 0 || this.#unitsLeft <= 0) return false;
    this.#unitsLeft -= units;
    return true;
  }

  wait(waiter: SideWaiter): void {
    this.#waiting.add(waiter);
    this.wake();
  }

  /** The connection has ended. */
  forget(waiter: SideWaiter): void {
    this.#waiting.delete(waiter);
  }

  readonly #begin = (): void => {
    this.#next = undefined;
    this.number++;
    this.#begun = 0;
    this.#unitsLeft = Math.min(this.#unitsLeft, 0) + UNITS_A_TURN;
    for (const waiter of this.#waiting) {
      if (this.#unitsLeft <= 0) break;
      this.#unitsLeft -= SHARE_UNITS;
      this.#waiting.delete(waiter); // if it waits again, it is last
      waiter.proceed();
    }
    if (this.#waiting.size > 0 || this.#unitsLeft <= 0) this.wake();
  };
}

export const sideTurns = new SideTurns();
