/** How to explore from a state. Masks are of the slots of steps. */
interface Entered {
  readonly isNew: boolean;
  readonly asleep: number;
  /** All other steps were explored before. Undefined: none was. */
  readonly only: number | undefined;
}

const MIN_SLOTS = 1 << 16;
const MAX_LOAD = 0.75;
/** A slot has the hash in two words, the number of steps explored from the state plus one, and the steps left out. */
const SLOT = 4;
const [LOW, HIGH, LEFT, ASLEEP] = [0, 1, 2, 3] as const;

/**
 * States that were reached, by 64-bit hashes, in one typed array with open addressing: 16 bytes for each slot, so that
 * most look-ups read one cache line. Keeps for each state the number of steps that were explored from it, and the steps
 * that were left out.
 */
export class Visited {
  size = 0;
  #slots = new Uint32Array(SLOT * MIN_SLOTS);

  /**
   * @param left    the number of steps to explore from the state
   * @param asleep  steps to leave out, as a mask of their slots
   * @returns undefined if there is nothing to explore that was not explored before
   */
  enter(low: number, high: number, left: number, asleep: number): Entered | undefined {
    const slots = this.#slots;
    const at = find(slots, low, high);
    const known = slots[at + LEFT] ?? 0;
    if (left + 1 > known) {
      slots[at + LOW] = low;
      slots[at + HIGH] = high;
      slots[at + LEFT] = left + 1;
      slots[at + ASLEEP] = asleep;
      const isNew = known === 0;
      if (isNew && ++this.size > (MAX_LOAD * slots.length) / SLOT) this.#grow();
      return { isNew, asleep, only: undefined };
    }
    const before = slots[at + ASLEEP] ?? 0;
    const only = (before & ~asleep) >>> 0;
    if (only === 0) return undefined;
    if (left + 1 === known) slots[at + ASLEEP] = before & asleep; // else what is kept holds for more steps
    return { isNew: false, asleep: (before & asleep) >>> 0, only };
  }

  #grow(): void {
    const before = this.#slots;
    const slots = new Uint32Array(2 * before.length);
    for (let from = 0; from < before.length; from += SLOT) {
      if (before[from + LEFT] === 0) continue;
      const to = find(slots, before[from + LOW] ?? 0, before[from + HIGH] ?? 0);
      for (let word = 0; word < SLOT; word++) slots[to + word] = before[from + word] ?? 0;
    }
    this.#slots = slots;
  }
}

/** The slot of a state, or the free one for it. */
function find(slots: Uint32Array, low: number, high: number): number {
  const mask = slots.length - 1;
  let at = ((low ^ (high >>> 7)) * SLOT) & mask;
  while (slots[at + LEFT] !== 0 && (slots[at + LOW] !== low >>> 0 || slots[at + HIGH] !== high >>> 0))
    at = (at + SLOT) & mask;
  return at;
}
