/** The same numbers in every run, from 0 to below 1. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A key by Zipf's law with exponent 1, of so many. */
export const zipf = (random: () => number, keys: number): string => `k${Math.floor(keys ** random())}`;
