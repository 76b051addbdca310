/** A pseudo-random sequence of numbers in [0, 1), the same in every run. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** One of `keys` keys, drawn by Zipf's law with exponent 1. */
export const zipf = (random: () => number, keys: number): string => `k${Math.floor(keys ** random())}`;
