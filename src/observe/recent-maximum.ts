/** How long a maximum is kept in one slot. */
const SLOT_MS = 15_000;
/** Slots that the past minute touches. */
const SLOTS = 5;

/**
 * Which slot it is, of all since the process started: advanced by a timer, so that nothing asks for the time when it
 * notes a value.
 */
let slot = 0;
let isTicking = false;

/** The largest of the values of the last 60 to 75 seconds. */
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

/** Only for tests: goes on to the next slot. */
export const advanceRecentMaxima = advance;
