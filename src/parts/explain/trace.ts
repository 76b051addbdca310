import { NearestTexts } from '../../base/nearest.ts';
import type { Candidate, Stop, TracedLevel } from '../../edge/listing/shapes.ts';
import { comparedWith } from '../../engine/rules/match/level.ts';
import type { Descriptor, Entry, Match } from '../../engine/rules/match/match.ts';
import type { Matcher } from '../../engine/rules/match/matcher.ts';
import { isFixed } from '../../engine/rules/match/matchers.ts';
import type { Level, Node, RuleTree } from '../../engine/rules/match/tree.ts';
import { shown } from '../../engine/rules/read/problem.ts';
import { findStop, type SearchedLevel, search } from '../lab/stop.ts';

export interface MatchTrace {
  readonly found: Match;
  readonly path: readonly TracedLevel[];
  readonly stopped?: Stop;
}

const MAX_OTHERS = 5;
const MAX_PATTERNS = 20;

/** Searches like `match`, and records the nodes that were tried. */
export function trace(rules: RuleTree, domain: string, descriptor: Descriptor): MatchTrace {
  const found = search(rules, domain, descriptor);
  const nearest = new NearestTexts();
  const stopped = findStop(found, nearest);
  const path = found.levels.flatMap((searched, at) => tracedLevel(at + 1, searched, nearest) ?? []);
  return { found: found.found, path, ...(stopped && { stopped }) };
}

/** Undefined if the tree has no level there. */
function tracedLevel(
  number: number,
  { entry, level, node: found }: SearchedLevel,
  nearest: NearestTexts,
): TracedLevel | undefined {
  if (!level) return undefined;
  const compared = listCompared(level, entry);
  const chosen = compared.find(({ node }) => node === found);
  const listed = { exact: 0, addresses: 0, wildcard: 0, any_value: 0 };
  const tried = compared.flatMap((one): readonly Candidate[] => {
    const { listedAs, failed } = one;
    if (one === chosen) return [{ ...listedAs, matched: true }];
    if (listed[listedAs.kind]++ >= MAX_PATTERNS) return [];
    const why = failed ?? { reason: whyPassedOver(listedAs.kind, chosen?.listedAs.kind) };
    return [{ ...listedAs, matched: false, ...why }];
  });
  const others = otherCandidates(level, entry, nearest);
  return {
    level: number,
    entry,
    tried: [...tried, ...others],
    more: Math.max(countNodes(level) - tried.length - others.length, 0),
  };
}

interface Compared {
  readonly node: Node;
  readonly listedAs: Pick<Candidate, 'key' | 'value' | 'kind'>;
  /** Why it does not match the entry. */
  readonly failed?: Pick<Candidate, 'reason' | 'offset' | 'of'> | undefined;
}

/** In the order of precedence. */
function listCompared(level: Level, { key, value }: Entry): readonly Compared[] {
  const branch = level.byKey.get(key);
  const exact = branch?.byValue.get(value);
  const anyValue = isFixed(key) ? branch?.anyValue : undefined;
  return [
    ...(exact ? [{ node: exact, listedAs: { key, value, kind: 'exact' } } as const] : []),
    ...(branch?.addresses?.all ?? []).map(
      ({ node, value: blocks }): Compared => ({
        node,
        listedAs: { key, value: shown(blocks.text), kind: 'addresses' },
        failed: blocks.matches(value) ? undefined : { reason: 'address_outside' },
      }),
    ),
    ...comparedWith(level, key)
      .filter(({ node }) => node !== exact) // a node with a * matches its own text exactly
      .map(
        ({ node, key: keyPattern, value: pattern }): Compared => ({
          node,
          listedAs: {
            key: keyPattern.text,
            ...(pattern.kind !== 'any_value' && { value: pattern.text }),
            kind: 'wildcard',
          },
          failed: describeFailure(keyPattern, key, 'key') ?? describeFailure(pattern, value, 'value'),
        }),
      ),
    ...(anyValue ? [{ node: anyValue, listedAs: { key, kind: 'any_value' } } as const] : []),
  ];
}

function describeFailure(matcher: Matcher, text: string, of: 'key' | 'value') {
  const offset = mismatchAt(matcher, text);
  return offset === undefined ? undefined : ({ reason: 'wildcard_fails', offset, of } as const);
}

/** The offset at which a text stops matching; undefined if it matches, or the offset says nothing. */
export function mismatchAt(matcher: Matcher, text: string): number | undefined {
  if (matcher.matches(text) || matcher.kind === 'addresses') return undefined;
  const [beginning = '', ...parts] = matcher.text.split('*');
  const end = parts.pop() ?? '';
  if (matcher.kind === 'exact' || !text.startsWith(beginning)) return commonPrefix(beginning, text);
  let from = beginning.length;
  for (const part of parts) {
    const found = text.indexOf(part, from);
    if (found < 0) return from;
    from = found + part.length;
  }
  const start = Math.max(text.length - end.length, from);
  return start + commonPrefix(end, text.slice(start));
}

/** The length of the beginning that two texts have in common. */
function commonPrefix(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}

/** Why another node was chosen, although this one matches the entry, too. */
function whyPassedOver(kind: Candidate['kind'], chosen: Candidate['kind'] | undefined) {
  if (kind !== chosen) return 'more_specific_won';
  return kind === 'addresses' ? 'longer_block_won' : 'earlier_wildcard_won';
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
