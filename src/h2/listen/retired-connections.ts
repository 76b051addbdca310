/** A connection that is being ended in good order. */
export interface RetiredConnection {
  /** Requests are still open. */
  readonly isInUse: boolean;
  destroy(): void;
}

/** The largest number, regardless of memory. */
const MAX_RETIRED = 256;
/** The part of the limits on memory and connections that they may use in addition to what is charged. */
const LIMIT_SHARE = 1 / 8;
/** The number of the oldest that are searched for one without requests. */
const MAX_SEARCHED = 16;

/**
 * Connections that are being ended for new ones, and whose own memory is not charged any more. A further one destroys
 * the oldest without open requests, or the oldest; clients need a round trip to close theirs.
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
    const max = Math.min(maxBytes / baseBytes, maxConnections) * LIMIT_SHARE;
    this.#max = Math.max(1, Math.min(MAX_RETIRED, Math.floor(max)));
  }

  add(connection: RetiredConnection): void {
    if (this.#all.size >= this.#max) this.#destroyOne();
    this.#all.add(connection);
  }

  /** It has ended. */
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
