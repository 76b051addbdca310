/** Appends to a list, created if there is none. V8 gives an empty list room for 17 items; most lists have one. */
export function appended<T>(list: T[] | undefined, item: T): T[] {
  if (!list) return [item];
  list.push(item);
  return list;
}
