import { shown } from '../read/problem.ts';
import { comparedWith } from './level.ts';
import type { Descriptor, Entry, Match } from './match.ts';
import type { Matcher } from './matcher.ts';
import { isFixed } from './matchers.ts';
import { NearestTexts } from './nearest-of.ts';
import type { Candidate, Stop, TracedLevel } from './shapes.ts';
import { findStop, search } from './stop.ts';
import type { Level, Node, PlacedNode, RuleTree } from './tree.ts';

export interface MatchTrace {
  readonly found: Match;
  readonly path: readonly TracedLevel[];
  /** Where the search ended without a rule. */
  readonly stopped?: Stop;
}

/** Maximum number of other nodes listed per level. */
const MAX_OTHERS = 5;
/** Maximum number of patterns listed per level. */
const MAX_PATTERNS = 20;

/** Searches like `match`, and records the nodes that were tried. */
export function trace(rules: RuleTree, domain: string, descriptor: Descriptor): MatchTrace {
  const { entries } = descriptor;
  const found = search(rules, domain, descriptor);
  const nearest = new NearestTexts();
  const stopped = findStop(rules, { domain, entries }, found, nearest);
  const path = found.levels.flatMap(({ entry, level, node }, at) =>
    level ? [tracedLevel({ level: at + 1, entry }, level, node, nearest)] : [],
  );
  return { found: found.found, path, ...(stopped && { stopped }) };
}

function tracedLevel(
  { level: number, entry }: Pick<TracedLevel, 'level' | 'entry'>,
  level: Level,
  found: Node | undefined,
  nearest: NearestTexts,
): TracedLevel {
  const branch = level.byKey.get(entry.key);
  const tried: Candidate[] = [];
  let isWon = false;
  let listed = 0;
  const exact = branch?.byValue.get(entry.value);
  if (exact) {
    tried.push({ key: entry.key, value: entry.value, kind: 'exact', matched: true });
    isWon = true;
  }
  for (const one of branch?.addresses?.all ?? []) {
    const candidate = addressCandidate(one, entry, { isWon, isChosen: !isWon && one.node === found });
    if (!candidate.matched && listed++ >= MAX_PATTERNS) continue;
    tried.push(candidate);
  }
  isWon ||= tried.some(({ matched }) => matched);
  listed = 0;
  let wonByPattern = false;
  for (const pattern of comparedWith(level, entry.key)) {
    const candidate = patternCandidate(pattern, entry);
    const isChosen = !isWon && candidate.matched && pattern.node === found;
    const isShown = isChosen || listed < MAX_PATTERNS;
    if (isShown) {
      listed++;
      if (!candidate.matched || isChosen) tried.push(candidate);
      else {
        const reason = wonByPattern ? 'earlier_wildcard_won' : 'more_specific_won';
        tried.push({ ...candidate, matched: false, reason });
      }
    }
    if (isChosen) [isWon, wonByPattern] = [true, true];
  }
  if (branch?.anyValue && isFixed(entry.key)) {
    const candidate = { key: entry.key, kind: 'any_value', matched: !isWon } as const;
    tried.push(isWon ? { ...candidate, reason: 'more_specific_won' } : candidate);
  }
  const others = otherCandidates(level, entry, nearest);
  return {
    level: number,
    entry,
    tried: [...tried, ...others],
    more: Math.max(countNodes(level) - tried.length - others.length, 0),
  };
}

function addressCandidate(
  { key, value }: PlacedNode,
  entry: Entry,
  { isWon, isChosen }: { readonly isWon: boolean; readonly isChosen: boolean },
): Candidate {
  const candidate = { key: key.text, value: shown(value.text), kind: 'addresses', matched: isChosen } as const;
  if (isChosen) return candidate;
  if (!value.matches(entry.value)) return { ...candidate, reason: 'address_outside' };
  return { ...candidate, reason: isWon ? 'more_specific_won' : 'longer_block_won' };
}

function patternCandidate({ key, value }: PlacedNode, entry: Entry): Candidate {
  const texts = { key: key.text, ...(value.kind !== 'any_value' && { value: value.text }) };
  const candidate = { ...texts, kind: 'wildcard' } as const;
  const failed = describeFailure(key, entry.key, 'key') ?? describeFailure(value, entry.value, 'value');
  return failed
    ? { ...candidate, matched: false, reason: 'wildcard_fails', ...failed }
    : { ...candidate, matched: true };
}

function describeFailure(matcher: Matcher, text: string, of: 'key' | 'value') {
  const offset = matcher.mismatchAt(text);
  return offset === undefined ? undefined : { offset, of };
}

/** The exact values and keys nearest to an entry's. */
function otherCandidates(level: Level, entry: Entry, nearest: NearestTexts): readonly Candidate[] {
  const values = level.byKey.get(entry.key)?.byValue.keys() ?? [];
  const others = nearest.find(entry.value, otherThan(values, entry.value), (value) => value, MAX_OTHERS);
  const keys = nearest.find(entry.key, otherThan(level.byKey.keys(), entry.key), (key) => key, MAX_OTHERS);
  return [
    ...others.map(
      (value) => ({ key: entry.key, value, kind: 'exact', matched: false, reason: 'value_differs' }) as const,
    ),
    ...keys.map((key) => ({ key, kind: 'any_value', matched: false, reason: 'no_such_key' }) as const),
  ];
}

function* otherThan(texts: Iterable<string>, own: string): Iterable<string> {
  for (const text of texts) if (text !== own && isFixed(text)) yield text;
}

/** The number of nodes of a level; counts at most `MAX_COUNTED_KEYS` keys. */
function countNodes({ byKey }: Level): number {
  let size = 0;
  let keys = 0;
  for (const { byValue, anyValue } of byKey.values()) {
    if (keys++ === MAX_COUNTED_KEYS) break;
    size += byValue.size + (anyValue ? 1 : 0);
  }
  return size;
}
const MAX_COUNTED_KEYS = 10_000;
