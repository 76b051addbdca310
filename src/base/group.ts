/** Groups items by a key, both in their order. Node 20 has no `Map.groupBy`. */
export function groupBy<T, K>(all: Iterable<T>, identify: (one: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const one of all) {
    const key = identify(one);
    const known = groups.get(key);
    if (known) known.push(one);
    else groups.set(key, [one]);
  }
  return groups;
}

/** The items of a list that are present: a condition leaves one out as `undefined` or `false`. */
export const present = <T>(items: readonly (T | undefined | false)[]): T[] =>
  items.flatMap((one) => (one === undefined || one === false ? [] : [one]));
