import { type Descriptor, type Entry, type Match, type MatchObserver, match } from './match.ts';
import { nearestOf } from './nearest-of.ts';
import type { Level, Node, Rule, RuleTree, WildcardNode } from './tree.ts';
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

/** Why a descriptor ended without a limit. */
export const stopReasons = {
  no_domain: 'no rules have the domain',
  no_such_key: 'the level has no node with the key',
  value_differs: 'the level has the key, but only with other values',
  wildcard_fails: 'the level has the key, but no pattern matches the value',
  path_too_short: 'the descriptor ends above the rules',
  path_too_long: 'the descriptor goes on below the last rule',
  invalid_limit: 'the limit in the request is not valid',
} as const;
export type StopReason = keyof typeof stopReasons;

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

/** A rule that a descriptor nearly met. */
export interface NearRule {
  readonly rule: string;
  readonly file?: string;
  readonly line?: number;
  /** What the descriptor would have to be. */
  readonly descriptor: readonly Entry[];
}

export interface Stop {
  /** The level that no node was found at, from 1; 0: the domain. */
  readonly level: number;
  readonly reason: StopReason;
  /** A sentence for people. */
  readonly why: string;
  readonly nearest: readonly NearRule[];
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
const MAX_NEAREST = 3;

/** Searches as `match` does, and says what was tried. */
export function trace(rules: RuleTree, domain: string, descriptor: Descriptor): MatchTrace {
  const path: TracedLevel[] = [];
  const levels: { readonly level: Level | undefined; readonly found: Node | undefined }[] = [];
  const observer: MatchObserver = {
    onLevel(entry, level, found) {
      levels.push({ level, found });
      if (level) path.push(tracedLevel(path.length + 1, entry, level, found));
    },
  };
  const found = match(rules, domain, descriptor, observer);
  const stopped = stopOf(rules, { domain, entries: descriptor.entries }, found, levels);
  return { found, path, ...(stopped && { stopped }) };
}

/** Why a descriptor meets no rule; undefined where it meets one. */
export const stopReasonOf = (rules: RuleTree, domain: string, entries: readonly Entry[]): StopReason | undefined => {
  const last: { level?: Level | undefined; entry?: Entry; found?: Node | undefined } = {};
  const found = match(
    rules,
    domain,
    { entries, override: undefined },
    { onLevel: (entry, level, node) => void Object.assign(last, { entry, level, found: node }) },
  );
  if (found.kind === 'no_domain') return 'no_domain';
  if (found.kind !== 'no_rule') return undefined;
  if (!last.entry || last.found) return 'path_too_short';
  return last.level ? failureAt(last.level, last.entry) : 'path_too_long';
};

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

function failureAt(level: Level, { key }: Entry): StopReason {
  const branch = level.byKey.get(key);
  if (!branch) return level.keyWildcards.all.length > 0 && level.byKey.size === 0 ? 'wildcard_fails' : 'no_such_key';
  return branch.wildcards.all.length > 0 ? 'wildcard_fails' : 'value_differs';
}

type Levels = readonly { readonly level: Level | undefined; readonly found: Node | undefined }[];

function stopOf(
  rules: RuleTree,
  { domain, entries }: { readonly domain: string; readonly entries: Descriptor['entries'] },
  found: Match,
  levels: Levels,
): Stop | undefined {
  switch (found.kind) {
    case 'no_domain': {
      const near = nearestOf(domain, rules.domains.keys(), (name) => name, MAX_NEAREST);
      const why = `no rules have the domain '${domain}'${near.length > 0 ? `; the nearest is '${near[0]}'` : ''}`;
      return {
        level: 0,
        reason: 'no_domain',
        why,
        nearest: near.flatMap((name) => nearRules(rules.domains.get(name)?.root, [])),
      };
    }
    case 'invalid_override':
      return { level: 0, reason: 'invalid_limit', why: found.problem, nearest: [] };
    case 'no_rule':
      return ruleStop(rules, domain, entries, levels);
    default:
      return undefined;
  }
}

function ruleStop(rules: RuleTree, domain: string, entries: readonly Entry[], levels: Levels): Stop {
  const root = rules.domains.get(domain)?.root;
  const last = levels.at(-1);
  const number = levels.length;
  const above = entries.slice(0, Math.max(number - 1, 0));
  const reordered = root && otherOrder(rules, domain, entries);
  const hint = reordered ? `; in the order ${textOf(reordered.descriptor)} they would meet ${reordered.rule}` : '';
  const withOrder = (near: readonly NearRule[]): readonly NearRule[] =>
    (reordered ? [reordered, ...near] : near).slice(0, MAX_NEAREST);
  if (!last || last.found) {
    const near = nearRules(last?.found?.children ?? root, entries);
    const why = `the descriptor ends at level ${number}, above the rules${near[0] ? `: ${textOf(near[0].descriptor)} has one` : ''}`;
    return { level: number, reason: 'path_too_short', why: why + hint, nearest: withOrder(near) };
  }
  const entry = entries[number - 1] ?? { key: '', value: '' };
  if (!last.level) {
    const rule = levels.at(-2)?.found?.rule;
    const near = rule ? [nearRule(rule, above)] : [];
    const ended = rule ? `${rule.path} is the last rule` : 'nothing is below';
    const why = `the descriptor goes on at level ${number} with '${entry.key}', where the rules end: ${ended}`;
    return { level: number, reason: 'path_too_long', why: why + hint, nearest: withOrder(near) };
  }
  const reason = failureAt(last.level, entry);
  const near = nearAt(last.level, entry, above);
  const what =
    reason === 'no_such_key'
      ? `no rule has the key '${entry.key}'`
      : `'${entry.key}' has no rule for the value '${entry.value}'`;
  const where = near[0] ? `; the nearest is ${near[0].rule}` : '';
  return {
    level: number,
    reason,
    why: `level ${number}: ${what}${hint === '' ? where : hint}`,
    nearest: withOrder(near),
  };
}

const textOf = (entries: readonly Entry[]): string => entries.map(({ key, value }) => `${key}=${value}`).join(',');

function nearAt(level: Level, entry: Entry, above: readonly Entry[]): readonly NearRule[] {
  const { key, value } = entry;
  const branch = level.byKey.get(key);
  const keys = branch ? [key] : nearestOf(key, level.byKey.keys(), (one) => one, MAX_NEAREST);
  return keys
    .flatMap((one) => {
      const { byValue, anyValue } = level.byKey.get(one) ?? { byValue: new Map<string, Node>(), anyValue: undefined };
      const values = nearestOf(value, byValue.entries(), ([text]) => text, MAX_NEAREST);
      const nodes = [
        ...values.map(([text, node]) => [{ key: one, value: text }, node] as const),
        ...(anyValue ? [[{ key: one, value }, anyValue] as const] : []),
      ];
      return nodes.flatMap(([found, node]) => nearRuleAt(node, [...above, found]) ?? []);
    })
    .slice(0, MAX_NEAREST);
}

/** The first rules of a level and below it. */
function nearRules(level: Level | undefined, above: readonly Entry[]): readonly NearRule[] {
  const found: NearRule[] = [];
  for (const [key, { byValue, anyValue }] of level?.byKey ?? []) {
    const nodes = [...(anyValue ? [['…', anyValue] as const] : []), ...firstOf(byValue)];
    for (const [value, node] of nodes) {
      const near = nearRuleAt(node, [...above, { key, value }]);
      if (near) found.push(near);
      if (found.length === MAX_NEAREST) return found;
    }
  }
  return found;
}

function* firstOf(nodes: ReadonlyMap<string, Node>): Iterable<readonly [string, Node]> {
  let count = 0;
  for (const node of nodes) {
    if (count++ === MAX_NEAREST) return;
    yield node;
  }
}

/** The rule of a node, or the first one below it. */
function nearRuleAt({ rule, children }: Node, descriptor: readonly Entry[]): NearRule | undefined {
  if (rule) return nearRule(rule, descriptor);
  return nearRules(children, descriptor)[0];
}

const nearRule = ({ path, place }: Rule, descriptor: readonly Entry[]): NearRule => ({
  rule: path,
  ...placeFields(place),
  descriptor,
});

/** File and line of a rule, where it has them. */
export const placeFields = (place: Rule['place']): { readonly file?: string; readonly line?: number } => ({
  ...(place && { file: place.file }),
  ...(place?.line !== undefined && { line: place.line }),
});

/** Orders of the entries that are tried: all of five. */
const MAX_REORDERED = 5;

/** The same entries in an order that meets a rule. */
function otherOrder(rules: RuleTree, domain: string, entries: readonly Entry[]): NearRule | undefined {
  if (entries.length < 2 || entries.length > MAX_REORDERED) return undefined;
  for (const ordered of ordersOf(entries)) {
    const found = match(rules, domain, { entries: ordered, override: undefined });
    if ('rule' in found) return nearRule(found.rule, ordered);
  }
  return undefined;
}

function* ordersOf<T>(items: readonly T[]): Iterable<readonly T[]> {
  if (items.length <= 1) yield items;
  for (const [at, first] of items.entries())
    if (items.length > 1) for (const rest of ordersOf(items.toSpliced(at, 1))) yield [first, ...rest];
}
