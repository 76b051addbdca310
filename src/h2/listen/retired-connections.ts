/** A connection in graceful shutdown. */
export interface RetiredConnection {
  /** Whether requests are open. */
  readonly isInUse: boolean;
  destroy(): void;
}

/** Maximum number of retired connections, regardless of memory. */
const MAX_RETIRED = 256;
/** Fraction of the limits on memory and connections that they may use in addition to what is charged. */
const LIMIT_FRACTION = 1 / 8;
/** Number of oldest ones searched for one without requests. */
const MAX_SEARCHED = 16;

/**
 * Connections that are being ended in favour of new ones, and whose own memory is no longer charged. A further one
 * destroys the oldest without open requests, or else the oldest; clients need a round trip to close theirs.
 */
export class RetiredConnections {
  readonly #max: number;
  readonly #all = new Set<RetiredConnection>();

  /**
   * @param baseBytes  memory of each
   * @param maxBytes  limit on the memory of all callers
   * @param maxConnections  limit on the connections of all callers
   */
  constructor(baseBytes: number, maxBytes: number, maxConnections = Number.POSITIVE_INFINITY) {
    const max = Math.min(maxBytes / baseBytes, maxConnections) * LIMIT_FRACTION;
    this.#max = Math.max(1, Math.min(MAX_RETIRED, Math.floor(max)));
  }

  add(connection: RetiredConnection): void {
    if (this.#all.size >= this.#max) this.#destroyOne();
    this.#all.add(connection);
  }

  /** Removes a connection that has ended. */
  delete(connection: RetiredConnection): void {
    this.#all.delete(connection);
  }

  /** Its socket emits 'close' only in a later turn. */
  #destroyOne(): void {
    const one = this.#unused() ?? this.#all.values().next().value;
    if (!one) return;
    this.#all.delete(one);
    one.destroy();
  }

  #unused(): RetiredConnection | undefined {
    let searched = 0;
    for (const one of this.#all) {
      if (!one.isInUse) return one;
      if (++searched === MAX_SEARCHED) return undefined;
    }
    return undefined;
  }
}
