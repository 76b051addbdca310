import { editsBetween } from '../nearest.ts';

/** Texts that are compared, and characters of each: what one search may cost. */
const MAX_COMPARED = 2_000;
const MAX_CHARACTERS = 48;

/** The items whose text is most like another one, the most alike first; capitals and marks hardly count. */
export function nearestOf<T>(to: string, items: Iterable<T>, textOf: (item: T) => string, count: number): readonly T[] {
  const found: { readonly item: T; readonly distance: number }[] = [];
  let compared = 0;
  for (const item of items) {
    if (compared++ >= MAX_COMPARED) break;
    found.push({ item, distance: distanceBetween(to, textOf(item)) });
  }
  found.sort((one, other) => one.distance - other.distance);
  return found.slice(0, count).map(({ item }) => item);
}

/** Edits between the texts, and a half where they differ in capitals and marks only. */
function distanceBetween(one: string, other: string): number {
  const [first, second] = [one.slice(0, MAX_CHARACTERS), other.slice(0, MAX_CHARACTERS)];
  return editsBetween(plain(first), plain(second)) + (first === second ? 0 : 0.5);
}

const plain = (text: string): string => text.toLowerCase().replace(/[-_. ]/g, '');
