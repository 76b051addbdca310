/** The most different messages that are kept, and their octets together: calls beyond them are not counted. */
const MAX_MESSAGES = 1_024;
const MAX_OCTETS = 1024 * 1024;
/** The most different messages that are counted in a turn. */
const MESSAGES_PER_TURN = 32;

interface Late {
  times: number;
  readonly count: (times: number) => void;
}

/**
 * Counts the hits of calls that were not decided in time: their proxies have let them pass. Equal messages are counted
 * together, so that a flood of one client costs little.
 */
export class LateCalls {
  readonly #late = new Map<string, Late>();
  #octets = 0;

  /** The number of different messages. */
  get size(): number {
    return this.#late.size;
  }

  /** @param count  counts as many equal messages */
  add(message: Buffer, count: (times: number) => void): void {
    const text = message.toString('latin1');
    const known = this.#late.get(text);
    if (known) {
      known.times++;
      return;
    }
    if (this.size >= MAX_MESSAGES || this.#octets + text.length > MAX_OCTETS) return;
    this.#octets += text.length;
    this.#late.set(text, { times: 1, count });
  }

  /** Counts some of them, the oldest first. */
  count(): void {
    let left = MESSAGES_PER_TURN;
    for (const [text, { times, count }] of this.#late) {
      if (left-- === 0) return;
      this.#late.delete(text);
      this.#octets -= text.length;
      count(times);
    }
  }
}
