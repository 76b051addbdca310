import { editsBetween } from '../../../base/nearest.ts';

/** Maximum number of steps of all searches with one `NearestNode` together, a fraction of a second. */
const MAX_STEPS = 10_000_000;

interface Keyed {
  readonly key: string;
  readonly value: string;
}

/**
 * Finds the likeliest correction of a misspelt key or value. The work of all searches together is bounded; beyond the
 * bound nothing is found.
 */
export class NearestNode {
  #stepsLeft = MAX_STEPS;

  /** The candidate with the nearest key and, among equal keys, the nearest value. */
  find<C extends Keyed>(expected: Keyed, candidates: Iterable<C>): C | undefined {
    let best: C | undefined;
    let bestKey = Number.POSITIVE_INFINITY;
    let bestValue = Number.POSITIVE_INFINITY;
    for (const candidate of candidates) {
      if (this.#stepsLeft <= 0) return best;
      const key = this.#edits(expected.key, candidate.key, bestKey);
      if (key > bestKey) continue;
      const value = this.#edits(expected.value, candidate.value, key < bestKey ? Number.POSITIVE_INFINITY : bestValue);
      if (key === bestKey && value >= bestValue) continue;
      [best, bestKey, bestValue] = [candidate, key, value];
    }
    return best;
  }

  /** Edits between two texts; infinity if there are more than `most`. */
  #edits(one: string, other: string, most: number): number {
    this.#stepsLeft--;
    if (one === other) return 0;
    if (Math.abs(one.length - other.length) > most) return Number.POSITIVE_INFINITY;
    const [a, b] = withoutCommonEnds(one, other);
    this.#stepsLeft -= one.length + a.length * b.length;
    return this.#stepsLeft > 0 ? editsBetween(a, b) : Number.POSITIVE_INFINITY;
  }
}

/** The parts of two texts without their common beginning and end: generated names differ in a few characters. */
function withoutCommonEnds(one: string, other: string): readonly [string, string] {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)];
}
