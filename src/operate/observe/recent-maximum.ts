/** The time that one slot covers. */
const SLOT_MS = 15_000;
/** The number of slots that the last minute spans. */
const SLOTS = 5;

/**
 * The current slot, counted from the start of the process. A timer advances it, so that noting a value does not read
 * the clock.
 */
let slot = 0;
let isTicking = false;

/** The largest value of the last 60 to 75 seconds. */
export class RecentMaximum {
  #largest: number[] | undefined;
  #slot = 0;

  note(value: number): void {
    if (!isTicking) startTicking();
    this.#largest ??= new Array<number>(SLOTS).fill(0);
    if (this.#slot !== slot) this.#advance(this.#largest);
    const at = slot % SLOTS;
    if (value > (this.#largest[at] ?? 0)) this.#largest[at] = value;
  }

  /** 0: there was none. */
  get value(): number {
    if (!this.#largest) return 0;
    if (this.#slot !== slot) this.#advance(this.#largest);
    return Math.max(...this.#largest);
  }

  #advance(largest: number[]): void {
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) largest[next % SLOTS] = 0;
    this.#slot = slot;
  }
}

function startTicking(): void {
  isTicking = true;
  setInterval(advance, SLOT_MS).unref();
}

function advance(): void {
  slot++;
}

/** For tests only: advances to the next slot. */
export const advanceRecentMaxima = advance;
