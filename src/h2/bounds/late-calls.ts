/** The most different messages that are kept, and their octets together: calls beyond them are not counted. */
const MAX_MESSAGES = 1_024;
const MAX_OCTETS = 1024 * 1024;
/** The octets that are compared in a turn, and those that are counted: calls in time go first. */
const COMPARED_PER_TURN = 8 * 1024;
const COUNTED_PER_TURN = 128;

interface Late {
  times: number;
  readonly count: CountLateCalls;
}

/** Counts as many equal messages. */
type CountLateCalls = (message: Buffer, times: number) => void;

/**
 * Counts the calls that were not handled in time, by what their methods do with them. Equal messages are counted
 * together, so that a flood of one client costs little. In each turn of the event loop this does a bounded amount of
 * work.
 */
export class LateCalls {
  readonly #late = new Map<string, Late>();
  #octets = 0;
  /** What is left of this turn's work, in octets. Below 0: the last message was longer. */
  #toCompare = COMPARED_PER_TURN;
  #toCount = 0;

  /** The number of different messages. */
  get size(): number {
    return this.#late.size;
  }

  /** @param message  only used during the call */
  add(message: Buffer, count: CountLateCalls): void {
    if (this.#toCompare <= 0) return;
    this.#toCompare -= message.length;
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

  /** Counts some of them, the oldest first. To be called once in a turn. */
  count(): void {
    this.#toCompare = COMPARED_PER_TURN;
    this.#toCount = Math.min(this.#toCount + COUNTED_PER_TURN, COUNTED_PER_TURN);
    for (const [text, { times, count }] of this.#late) {
      if (this.#toCount <= 0) return;
      this.#toCount -= text.length;
      this.#late.delete(text);
      this.#octets -= text.length;
      count(Buffer.from(text, 'latin1'), times);
    }
  }
}
