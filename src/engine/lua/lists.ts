/** Removes numbers from a list: `splice` of steps, which Lua lacks. */
export function removeAt(list: number[], first: number, count: number): void {
  const length = list.length - count;
  for (let at = first; at < length; at++) list[at] = list[at + count] ?? 0;
  for (let gone = 0; gone < count; gone++) list.pop();
}
