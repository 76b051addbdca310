import type { Entry } from '../../../engine/rules/match/match.ts';

/** Maximum length of names; longer ones are cut. */
const MAX_NAME_LENGTH = 4_096;

/** Separates the rule from the descriptor in the name of a table for several rules. */
export const SEPARATOR = '\0';

/** The name by which tables count a descriptor. */
export function createTopName(entries: readonly Entry[]): string {
  const name = encodedEntries(entries);
  return name.length <= MAX_NAME_LENGTH ? name : `${name.slice(0, MAX_NAME_LENGTH)}…`;
}

/** Encodes entries as one text, unambiguously. */
export function encodedEntries(entries: readonly Entry[]): string {
  let text = '';
  for (const { key, value } of entries) text += `|${key.length}:${key}|${value.length}:${value}`;
  return text;
}

/** MurmurHash3's step for each UTF-16 unit, then its length. @see https://doi.org/10.5281/zenodo.1241418 */
export function mixed(start: number, text: string): number {
  let hash = start;
  for (let at = 0; at < text.length; at++) {
    const unit = Math.imul(text.charCodeAt(at), 0xcc9e2d51);
    hash ^= Math.imul((unit << 15) | (unit >>> 17), 0x1b873593);
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  return (hash ^ text.length) | 0;
}
