import type { Monotonic } from '../clock.ts';

/** A connection without requests is new for this long, and idle ones are ended before it. */
const UNUSED_MS = 1_000;

/** The share of all connections that are unused only in a flood of new ones. */
const FLOOD_SHARE = 1 / 2;

/**
 * Connections without open requests, in the order in which they are ended to make room for new ones: first those that
 * never had a request, the oldest first, then those that have been idle longest, then new ones whose first request may
 * be on its way. If more than half of all connections are unused, even new ones go before idle ones: otherwise a fast
 * flood of connections would cost other clients theirs. Connections are added by their servers' regular checks, not
 * with each request: those in use since are found and passed over when it is their turn. Each check adds a connection
 * at most once, so the amortized cost of `retireOne` is constant.
 */
export class IdleConnections<C> {
  readonly #nowMs: Monotonic;
  readonly #retire: (connection: C) => boolean;
  /** When each was opened. */
  readonly #unused = new Map<C, number>();
  readonly #idle = new Set<C>();

  /** @param retire  ends a connection, unless it is in use; returns false then */
  constructor(nowMs: Monotonic, retire: (connection: C) => boolean) {
    this.#nowMs = nowMs;
    this.#retire = retire;
  }

  /** A new connection, which has no request yet. */
  add(connection: C): void {
    this.#unused.set(connection, this.#nowMs());
  }

  /** @param isIdle  it has no open request, and had none since the previous check */
  mark(connection: C, isIdle: boolean): void {
    if (!isIdle) this.remove(connection);
    else if (!this.#unused.has(connection)) this.#idle.add(connection);
  }

  remove(connection: C): void {
    this.#unused.delete(connection);
    this.#idle.delete(connection);
  }

  /**
   * @param connections  the number of all, in use or not, without those that were retired
   * @returns false if none is idle
   */
  retireOne(connections: number): boolean {
    const many = connections * FLOOD_SHARE;
    for (let next = this.#next(many); next; next = this.#next(many)) {
      this.remove(next);
      if (this.#retire(next)) return true;
    }
    return false;
  }

  #next(many: number): C | undefined {
    const [unused] = this.#unused;
    if (unused && (this.#unused.size > many || this.#nowMs() - unused[1] >= UNUSED_MS)) return unused[0];
    const [idle] = this.#idle;
    return idle ?? unused?.[0];
  }
}
