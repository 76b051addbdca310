/** Maximum number of distinct messages kept, and of their octets; calls beyond either are not counted. */
const MAX_MESSAGES = 1_024;
const MAX_OCTETS = 1024 * 1024;
/** Octets compared, and octets counted, in a turn; low, since calls in time go first. */
const COMPARED_PER_TURN = 8 * 1024;
const COUNTED_PER_TURN = 128;
/** Octets of calls that are tried to be answered in a turn. */
const ANSWERED_PER_TURN = 4 * 1024;

interface Late {
  times: number;
  readonly count: CountLateCalls;
}

/** Counts this number of equal messages. */
type CountLateCalls = (message: Buffer, times: number) => void;

/**
 * Counts calls that were not handled in time, through a callback of their method. Equal messages are counted together,
 * and each turn of the event loop does a bounded amount of work, so a flood from one client costs little.
 */
export class LateCalls {
  readonly #late = new Map<string, Late>();
  #octets = 0;
  /** Octets left in this turn; negative after a message that was longer. */
  #toCompare = COMPARED_PER_TURN;
  #toCount = 0;
  #toAnswer = ANSWERED_PER_TURN;

  /** Number of distinct messages. */
  get size(): number {
    return this.#late.size;
  }

  /** Whether this turn has time to answer a late call of this length. */
  mayAnswer(octets: number): boolean {
    if (this.#toAnswer <= 0) return false;
    this.#toAnswer -= octets;
    return true;
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

  /** Counts some of them, oldest first. Call once per turn. */
  count(): void {
    this.#toCompare = COMPARED_PER_TURN;
    this.#toAnswer = ANSWERED_PER_TURN;
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
