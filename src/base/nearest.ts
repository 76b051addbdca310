/**
 * The name that a mistyped one most likely means, or undefined. It is equal except for case, blanks and punctuation, or
 * the only name that it abbreviates, or the one with the fewest edits.
 *
 * @example nearest('requestsPerUnit', ['unit', 'requests_per_unit']) is 'requests_per_unit'
 */
export function nearest(written: string, names: readonly string[]): string | undefined {
  const plain = normalized(written);
  if (plain === '' || plain.length > MAX_LENGTH) return undefined;
  const same = names.find((name) => normalized(name) === plain);
  if (same !== undefined) return same;
  const abbreviated = names.filter((name) => normalized(name).startsWith(plain));
  if (abbreviated.length > 0) return abbreviated.length === 1 ? abbreviated[0] : undefined;
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(plain.length * MAX_EDITS_PER_CHARACTER)) + 1;
  for (const name of names) {
    const edits = editsBetween(plain, normalized(name));
    if (edits >= fewest || edits >= plain.length) continue;
    best = name;
    fewest = edits;
  }
  return best;
}

const MAX_EDITS_PER_CHARACTER = 0.3;
/** Maximum length of a name. */
const MAX_LENGTH = 64;

const normalized = (name: string): string => name.toLowerCase().replace(/[^a-z0-9*]/g, '');

/** Number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
export function editsBetween(one: string, other: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      let edits = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      const isSwapped = column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      if (isSwapped) edits = Math.min(edits, (beforeLast[column - 2] ?? 0) + 1);
      current.push(edits);
    }
    beforeLast = last;
    last = current;
  }
  return last[other.length] ?? 0;
}
