/** Texts that are compared, and characters of each: what one search may cost. */
const MAX_COMPARED = 2_000;
const MAX_CHARACTERS = 48;

/** The items whose text is most like another one, the most alike first; capitals and separators count half. */
export function nearest<T>(to: string, items: Iterable<T>, textOf: (item: T) => string, count: number): readonly T[] {
  const found: { readonly item: T; readonly distance: number }[] = [];
  let compared = 0;
  for (const item of items) {
    if (compared++ >= MAX_COMPARED) break;
    found.push({ item, distance: distanceBetween(to, textOf(item)) });
  }
  found.sort((one, other) => one.distance - other.distance);
  return found.slice(0, count).map(({ item }) => item);
}

/** Levenshtein's distance of the texts, and half of what they differ when written alike. */
function distanceBetween(one: string, other: string): number {
  const [first, second] = [one.slice(0, MAX_CHARACTERS), other.slice(0, MAX_CHARACTERS)];
  return levenshtein(plain(first), plain(second)) + (first === second ? 0 : 0.5);
}

const plain = (text: string): string => text.toLowerCase().replace(/[-_. ]/g, '');

function levenshtein(one: string, other: string): number {
  let above = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const line = [row];
    for (let column = 1; column <= other.length; column++) {
      const replaced = (above[column - 1] ?? 0) + (one[row - 1] === other[column - 1] ? 0 : 1);
      line.push(Math.min(replaced, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1));
    }
    above = line;
  }
  return above[other.length] ?? 0;
}
