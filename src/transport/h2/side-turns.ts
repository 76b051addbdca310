/**
 * Work of side services in a turn of the event loop, over all connections of this process, beyond the share that each
 * connection has in any case. A unit is about 0.1 µs.
 */
const UNITS_A_TURN = 32_768;
/** What a connection has in each turn, and what one that waits is given at a time. */
export const SHARE_UNITS = 2_048;
/** So many connections have that share in a turn. */
const FULL_SHARES = 64;
/** What each further one has: room for one compressed health check. */
const SMALL_SHARE_UNITS = 256;

/** A connection whose further input waits for a turn. */
export interface SideWaiter {
  /** Given a share; continues if that makes up for its work. */
  proceed(): void;
}

/**
 * Bounds the work in a turn of services whose messages are unpacked and handled as they are read: health, reflection
 * and the streams of the Rate Limit Quota Service; of Holds, Rules and Kuadrant's service, the work to unpack messages.
 * Decisions have the call queue for that. One read of each of many connections may hold hundreds of such messages.
 * Connections that wait are given a share each, in turn. Work beyond the bound is made up for in the next turns.
 */
class SideTurns {
  #unitsLeft = UNITS_A_TURN;
  /** Connections that have begun their own share in this turn. */
  #begun = 0;
  readonly #waiting = new Set<SideWaiter>();
  #next: NodeJS.Immediate | undefined;
  /** Of this turn; another one in each turn in which there is such work. */
  number = 0;

  /** To be called when there is work. */
  wake(): void {
    this.#next ??= setImmediate(this.#begin);
  }

  /** The share that a connection has in this turn in any case. To be called once a turn for each that has work. */
  ownShare(): number {
    return this.#begun++ < FULL_SHARES ? SHARE_UNITS : SMALL_SHARE_UNITS;
  }

  /** @returns whether a connection is given so much more in this turn: no other one waits, and there is room */
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
      this.#waiting.delete(waiter); // one that waits again is the last
      waiter.proceed();
    }
    if (this.#waiting.size > 0 || this.#unitsLeft <= 0) this.wake();
  };
}

export const sideTurns = new SideTurns();
