import type { Descriptor, Entry, Match } from './match.ts';
import { nearestOf } from './nearest-of.ts';
import { type Stop, search, stopOf } from './stop.ts';
import type { Level, Node, RuleTree, WildcardNode } from './tree.ts';
import { hasWildcard, mismatchAt, type Wildcard } from './wildcard.ts';

/** Why a node of a level was not chosen for an entry. */
export const passedOverReasons = {
  no_such_key: 'its key is another one',
  value_differs: 'its value is another one',
  wildcard_fails: 'the pattern stops matching at the offset',
  earlier_wildcard_won: 'a pattern before it in the file matches, too',
  more_specific_won: 'an exact value or a pattern is preferred',
} as const;
export type PassedOverReason = keyof typeof passedOverReasons;

/** A node that was considered at a level. */
export interface Candidate {
  readonly key: string;
  /** Absent: any value. */
  readonly value?: string;
  readonly kind: 'exact' | 'wildcard' | 'any_value';
  readonly matched: boolean;
  readonly reason?: PassedOverReason;
  /** Of `wildcard_fails`: where the text stops matching, in the key or in the value. */
  readonly offset?: number;
  readonly of?: 'key' | 'value';
}

/** One step down the tree. */
export interface TracedLevel {
  /** From 1. */
  readonly level: number;
  readonly entry: Entry;
  /** Those that were tried in their order, then a few others, the nearest first. */
  readonly tried: readonly Candidate[];
  /** Nodes of the level that are not listed. */
  readonly more: number;
}

export interface MatchTrace {
  readonly found: Match;
  readonly path: readonly TracedLevel[];
  /** Where the search ended without a rule. */
  readonly stopped?: Stop;
}

/** Others of a level that are listed. */
const MAX_OTHERS = 5;
/** Patterns of a level that are listed. */
const MAX_WILDCARDS = 20;

/** Searches as `match` does, and says what was tried. */
export function trace(rules: RuleTree, domain: string, descriptor: Descriptor): MatchTrace {
  const found = search(rules, domain, descriptor);
  const stopped = stopOf(rules, domain, descriptor.entries, found);
  const path = found.levels.flatMap(({ entry, level, node }, at) =>
    level ? [tracedLevel(at + 1, entry, level, node)] : [],
  );
  return { found: found.found, path, ...(stopped && { stopped }) };
}

function tracedLevel(number: number, entry: Entry, level: Level, found: Node | undefined): TracedLevel {
  const branch = level.byKey.get(entry.key);
  const tried: Candidate[] = [];
  let isWon = false;
  let listed = 0;
  const exact = branch?.byValue.get(entry.value);
  if (exact) {
    tried.push({ key: entry.key, value: entry.value, kind: 'exact', matched: true });
    isWon = true;
  }
  const wildcards = (branch?.wildcards ?? level.keyWildcards).all;
  let wonByWildcard = false;
  for (const wildcard of wildcards) {
    const candidate = wildcardCandidate(wildcard, entry);
    const isChosen = !isWon && candidate.matched && wildcard.node === found;
    const isShown = isChosen || listed < MAX_WILDCARDS;
    if (isShown) {
      listed++;
      if (!candidate.matched || isChosen) tried.push(candidate);
      else {
        const reason = wonByWildcard ? 'earlier_wildcard_won' : 'more_specific_won';
        tried.push({ ...candidate, matched: false, reason });
      }
    }
    if (isChosen) [isWon, wonByWildcard] = [true, true];
  }
  if (branch?.anyValue && !hasWildcard(entry.key)) {
    const candidate = { key: entry.key, kind: 'any_value', matched: !isWon } as const;
    tried.push(isWon ? { ...candidate, reason: 'more_specific_won' } : candidate);
  }
  const others = otherCandidates(level, entry);
  return {
    level: number,
    entry,
    tried: [...tried, ...others],
    more: Math.max(sizeOf(level) - tried.length - others.length, 0),
  };
}

function wildcardCandidate({ key, value }: WildcardNode, entry: Entry): Candidate {
  const candidate = { key: key.text, ...(value && { value: value.text }), kind: 'wildcard' } as const;
  const failed = failureOf(key, entry.key, 'key') ?? (value && failureOf(value, entry.value, 'value'));
  return failed
    ? { ...candidate, matched: false, reason: 'wildcard_fails', ...failed }
    : { ...candidate, matched: true };
}

function failureOf(pattern: Wildcard, text: string, of: 'key' | 'value') {
  const offset = mismatchAt(pattern, text);
  return offset === undefined ? undefined : { offset, of };
}

/** Exact values and keys that an entry does not have, the nearest. */
function otherCandidates(level: Level, entry: Entry): readonly Candidate[] {
  const values = level.byKey.get(entry.key)?.byValue.keys() ?? [];
  const others = nearestOf(entry.value, otherThan(values, entry.value), (value) => value, MAX_OTHERS);
  const keys = nearestOf(entry.key, otherThan(level.byKey.keys(), entry.key), (key) => key, MAX_OTHERS);
  return [
    ...others.map(
      (value) => ({ key: entry.key, value, kind: 'exact', matched: false, reason: 'value_differs' }) as const,
    ),
    ...keys.map((key) => ({ key, kind: 'any_value', matched: false, reason: 'no_such_key' }) as const),
  ];
}

function* otherThan(texts: Iterable<string>, own: string): Iterable<string> {
  for (const text of texts) if (text !== own && !hasWildcard(text)) yield text;
}

/** Nodes of a level, of so many keys at most. */
function sizeOf({ byKey }: Level): number {
  let size = 0;
  let keys = 0;
  for (const { byValue, anyValue } of byKey.values()) {
    if (keys++ === MAX_COUNTED_KEYS) break;
    size += byValue.size + (anyValue ? 1 : 0);
  }
  return size;
}
const MAX_COUNTED_KEYS = 10_000;
