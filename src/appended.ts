/**
 * Appends to a list, which is made if there is none. V8 makes room for 17 items at the first `push` to an empty list;
 * most lists of a request have one.
 */
export function appended<T>(list: T[] | undefined, item: T): T[] {
  if (!list) return [item];
  list.push(item);
  return list;
}
