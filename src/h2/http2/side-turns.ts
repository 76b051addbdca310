/** Work of side services per turn over all connections, besides each one's own share. A unit is about 0.1 µs. */
const UNITS_PER_TURN = 32_768;
/** Units of a connection's own share of each turn, and of each share given to a waiting one. */
export const SHARE_UNITS = 2_048;
/** Number of connections that get this share in a turn. */
const FULL_SHARES = 64;
/** Units for each further connection, enough for one short compressed message. */
const SMALL_SHARE_UNITS = 256;

/** A connection whose further input waits for a turn. */
export interface SideWaiter {
  /** Receives a share; continues if it covers the work done so far. */
  proceed(): void;
}

/**
 * Bounds the work per turn of side services, whose messages are unpacked and handled as they are read; for methods in
 * the call queue, only of unpacking. One read of each of many connections may hold hundreds of messages. Waiting
 * connections are given shares in turn, and work beyond the bound is made up for in the next turns.
 */
class SideTurns {
  #unitsLeft = UNITS_PER_TURN;
  /** Number of connections that have begun their own share in this turn. */
  #begun = 0;
  readonly #waiting = new Set<SideWaiter>();
  #next: NodeJS.Immediate | undefined;
  /** Identifies the turn; changes with each turn that has such work. */
  number = 0;

  /** Call when there is work. */
  wake(): void {
    this.#next ??= setImmediate(this.#begin);
  }

  /** A connection's own share of this turn. Call once per turn for each connection with work. */
  ownShare(): number {
    return this.#begun++ < FULL_SHARES ? SHARE_UNITS : SMALL_SHARE_UNITS;
  }

  /** @returns whether a connection may use these further units, because none waits and the turn has units left */
  take(units: number): boolean {
    if (this.#waiting.size > 0 || this.#unitsLeft <= 0) return false;
    this.#unitsLeft -= units;
    return true;
  }

  wait(waiter: SideWaiter): void {
    this.#waiting.add(waiter);
    this.wake();
  }

  /** Removes a connection that has ended. */
  forget(waiter: SideWaiter): void {
    this.#waiting.delete(waiter);
  }

  readonly #begin = (): void => {
    this.#next = undefined;
    this.number++;
    this.#begun = 0;
    this.#unitsLeft = Math.min(this.#unitsLeft, 0) + UNITS_PER_TURN;
    for (const waiter of this.#waiting) {
      if (this.#unitsLeft <= 0) break;
      this.#unitsLeft -= SHARE_UNITS;
      this.#waiting.delete(waiter); // joins the end of the queue if it waits again
      waiter.proceed();
    }
    if (this.#waiting.size > 0 || this.#unitsLeft <= 0) this.wake();
  };
}

export const sideTurns = new SideTurns();
