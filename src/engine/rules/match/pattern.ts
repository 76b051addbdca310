import type { RequestWork } from '../../../base/request-work.ts';

/** Characters that take as long to search for a part of a pattern as a unit of work. */
const CHARS_PER_UNIT = 1_024;

/** A text in which each `*` matches any number of characters, including none. A literal `*` cannot be escaped. */
export interface Wildcard {
  readonly text: string;
  /** The text before the first `*`, with which every match begins. */
  readonly prefix: string;
  /**
   * @param work  charged before a part is searched for between the beginning and the end of the text
   * @throws TooCostly
   */
  matches(candidate: string, work?: RequestWork): boolean;
}

/** The offset at which a text stops matching a pattern; undefined: it matches. */
export function mismatchAt({ text, matches }: Wildcard, candidate: string): number | undefined {
  if (matches(candidate)) return undefined;
  const parts = text.split('*');
  const [prefix = ''] = parts;
  const suffix = parts.length > 1 ? (parts.at(-1) ?? '') : '';
  if (!candidate.startsWith(prefix)) return commonPrefix(prefix, candidate);
  let from = prefix.length;
  for (const part of parts.slice(1, -1)) {
    const found = candidate.indexOf(part, from);
    if (found < 0) return from;
    from = found + part.length;
  }
  if (suffix === '') return from; // a pattern without `*`: the candidate is longer
  const start = Math.max(candidate.length - suffix.length, from);
  return start + commonPrefix(suffix, candidate.slice(start));
}

function commonPrefix(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}

export const hasWildcard = (text: string): boolean => text.includes('*');

/** Whether some text matches both patterns. If both have a `*`, only their beginnings and ends can rule that out. */
export function overlap(one: string, other: string): boolean {
  if (!hasWildcard(one)) return compileWildcard(other).matches(one);
  if (!hasWildcard(other)) return compileWildcard(one).matches(other);
  const [starts, ends] = [[one, other].map(prefixOf), [one, other].map(suffixOf)];
  const [short = '', long = ''] = starts.sort(byLength);
  const [shortEnd = '', longEnd = ''] = ends.sort(byLength);
  return long.startsWith(short) && longEnd.endsWith(shortEnd);
}

const prefixOf = (pattern: string): string => pattern.slice(0, pattern.indexOf('*'));
const suffixOf = (pattern: string): string => pattern.slice(pattern.lastIndexOf('*') + 1);
const byLength = (one: string, other: string): number => one.length - other.length;

/**
 * Compiles a pattern; without `*` it matches only itself. `api/*` matches `api/` and `api/v1`; `bar*b` matches `barb`
 * and `bar1b`, but not `bara`.
 */
export function compileWildcard(text: string): Wildcard {
  if (!hasWildcard(text)) return { text, prefix: text, matches: (candidate) => candidate === text };
  const parts = text.split('*');
  const [prefix = ''] = parts;
  const suffix = parts.at(-1) ?? '';
  const middle = parts.slice(1, -1).filter((part) => part !== '');
  return {
    text,
    prefix,
    matches(candidate, work) {
      if (!candidate.startsWith(prefix) || !candidate.endsWith(suffix)) return false;
      if (middle.length > 0) work?.addMatching(candidate.length / CHARS_PER_UNIT);
      let from = prefix.length;
      for (const part of middle) {
        const found = candidate.indexOf(part, from);
        if (found < 0) return false;
        from = found + part.length;
      }
      return from + suffix.length <= candidate.length;
    },
  };
}
