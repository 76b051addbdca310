/** Counts of the last minute, by slots of ten seconds, the newest first. */
export type Slots = number[];

/** Number of slots; all but the newest are complete. */
const SLOTS = 6;

/** The newest slots, of 30 to 40 seconds. */
export const RECENT_SLOTS = 4;

export const newSlots = (): Slots => new Array<number>(SLOTS).fill(0);

export function addTo(slots: Slots, count = 1): void {
  slots[0] = (slots[0] ?? 0) + count;
}

/** Starts the next slot. Call every ten seconds. */
export function shift(slots: Slots): void {
  slots.pop();
  slots.unshift(0);
}

export const allZero = (slots: Slots): boolean => slots.every((count) => count === 0);

/** The sum of slots, from one of them to another. */
export function sum(slots: Slots, from = 0, to = SLOTS): number {
  let sum = 0;
  for (let at = from; at < to; at++) sum += slots[at] ?? 0;
  return sum;
}
