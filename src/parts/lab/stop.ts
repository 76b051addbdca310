import { NearestTexts } from '../../base/nearest.ts';
import { type RequestWork, TooCostly } from '../../base/request-work.ts';
import { take } from '../../base/slices.ts';
import { describeRulePlace, placeFields } from '../../edge/listing/describe.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import type { NearRule, Stop } from '../../edge/listing/shapes.ts';
import {
  type Descriptor,
  type Entry,
  type Match,
  match,
  missAt,
  type StopReason,
  stopReasons,
} from '../../engine/rules/match/match.ts';
import type { AddressNodes, Level, Node, Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import { shown } from '../../engine/rules/read/problem.ts';

const MAX_NEAREST = 3;

/** A search, and its result. */
export interface Search {
  readonly rules: RuleTree;
  readonly domain: string;
  readonly entries: readonly Entry[];
  readonly found: Match;
  readonly levels: readonly SearchedLevel[];
}

/** A level that was searched for an entry. */
export interface SearchedLevel {
  readonly entry: Entry;
  /** The level; undefined if the tree has none there. */
  readonly level: Level | undefined;
  readonly node: Node | undefined;
}

/**
 * Searches like `match`, and records the levels.
 *
 * @param work  bounds the search, if given
 * @throws TooCostly
 */
export function search(rules: RuleTree, domain: string, descriptor: Descriptor, work?: RequestWork): Search {
  const levels: SearchedLevel[] = [];
  const found = match(rules, domain, descriptor, {
    onLevel: (entry, level, node) => void levels.push({ entry, level, node }),
    work,
  });
  return { rules, domain, entries: descriptor.entries, found, levels };
}

/** Why a search ended without a rule, in words, and the nearest rules; undefined if a rule matched. */
export function findStop(searched: Search, nearest = new NearestTexts()): Stop | undefined {
  const { found } = searched;
  switch (found.kind) {
    case 'no_domain':
      return domainStop(searched, nearest);
    case 'invalid_request_limit':
      return { level: 0, reason: 'invalid_limit', why: found.problem, nearest: [] };
    case 'no_rule': {
      const reordered = otherOrder(searched, nearest);
      const stop = ruleStop(searched, nearest);
      if (!reordered) return stop;
      const hint = `in the order ${entriesText(reordered.descriptor)} they would match ${shown(reordered.rule)}`;
      return { ...stop, why: `${stop.why}; ${hint}`, nearest: [reordered, ...stop.nearest].slice(0, MAX_NEAREST) };
    }
    default:
      return undefined;
  }
}

/** Why a descriptor met no rule, for clients that may not see its values. */
export function whyWithoutValues(
  { reason, level = 0 }: Partial<Pick<Stop, 'reason' | 'level'>>,
  entries: readonly Entry[],
): string | undefined {
  if (reason === undefined) return undefined;
  const key = entries[level - 1]?.key;
  return key === undefined ? stopReasons[reason] : `level ${level}, key '${shown(key)}': ${stopReasons[reason]}`;
}

function domainStop({ rules, domain }: Search, nearest: NearestTexts): Stop {
  const near = nearest.find(domain, rules.domains.keys(), (name) => name, MAX_NEAREST);
  const hint = near[0] === undefined ? '' : `; the nearest is '${shown(near[0])}'`;
  return {
    level: 0,
    reason: 'no_domain',
    why: `no rules have the domain '${shown(domain)}'${hint}`,
    nearest: near.flatMap((name) => nearRules(rules.domains.get(name)?.root, [])),
  };
}

function ruleStop({ rules, domain, entries, levels }: Search, nearest: NearestTexts): Stop {
  const last = levels.at(-1);
  const number = levels.length;
  if (!last || last.node) {
    const near = nearRules(last ? last.node?.children : rules.domains.get(domain)?.root, entries);
    const example = near[0] ? `: ${entriesText(near[0].descriptor)} has one` : ', and none is below';
    const why = `the descriptor ends at level ${number}, where no rule has a limit${example}`;
    return { level: number, reason: 'path_too_short', why, nearest: near };
  }
  const { entry, level } = last;
  const above = entries.slice(0, number - 1);
  if (!level) {
    const rule = levels.at(-2)?.node?.rule;
    const ended = rule ? `${shown(rule.path)} is the last rule` : 'nothing is below';
    const why = `the descriptor continues at level ${number} with '${shown(entry.key)}', where the rules end: ${ended}`;
    return { level: number, reason: 'path_too_long', why, nearest: rule ? [nearRule(rule, above)] : [] };
  }
  const { reason } = missAt(level, entry);
  const near = nearAt({ level, entry }, above, nearest);
  const what =
    reason === 'no_such_key'
      ? `no rule has the key '${shown(entry.key)}'`
      : `'${shown(entry.key)}' has no rule for the value '${shown(entry.value)}'`;
  const hint = near[0] ? `; the nearest is ${shown(near[0].rule)}` : '';
  return { level: number, reason, why: `level ${number}: ${what}${hint}`, nearest: near };
}

const entriesText = (entries: readonly Entry[]): string => shown(descriptorText(entries));

function nearAt(
  { level, entry: { key, value } }: { readonly level: Level; readonly entry: Entry },
  above: readonly Entry[],
  nearest: NearestTexts,
): readonly NearRule[] {
  const branch = level.byKey.get(key);
  const keys = branch ? [key] : nearest.find(key, level.byKey.keys(), (one) => one, MAX_NEAREST);
  return keys
    .flatMap((one) => {
      const { byValue = new Map<string, Node>(), addresses, anyValue } = level.byKey.get(one) ?? {};
      const values = nearest.find(value, byValue.entries(), ([text]) => text, MAX_NEAREST);
      const named = [...values, ...firstAddresses(addresses)].map(
        ([text, node]) => [{ key: one, value: text }, node] as const,
      );
      const any = anyValue ? [[{ key: one, value }, anyValue] as const] : [];
      const nodes = byValue.has(value) ? [...named, ...any] : [...any, ...named];
      return nodes.flatMap(([found, node]) =>
        level.required?.counts(found) ? [] : (nearRuleAt(node, [...above, found]) ?? []),
      );
    })
    .slice(0, MAX_NEAREST);
}

/** The first rules of a level and below it. */
function nearRules(level: Level | undefined, above: readonly Entry[]): readonly NearRule[] {
  const found: NearRule[] = [];
  for (const [key, { byValue, addresses, anyValue }] of level?.byKey ?? []) {
    const nodes = [
      ...(anyValue ? [['…', anyValue] as const] : []),
      ...take(MAX_NEAREST, byValue),
      ...firstAddresses(addresses),
    ];
    for (const [value, node] of nodes) {
      if (level?.required?.counts({ key, value })) continue; // no caller sends it
      const near = nearRuleAt(node, [...above, { key, value }]);
      if (near) found.push(near);
      if (found.length === MAX_NEAREST) return found;
    }
  }
  return found;
}

/** The first nodes with blocks of addresses, each with an address. */
const firstAddresses = (addresses: AddressNodes | undefined): readonly (readonly [string, Node])[] =>
  (addresses?.all ?? []).slice(0, MAX_NEAREST).map(({ value, node }) => [value.example(''), node]);

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

/** Maximum number of entries whose orders are tried. */
const MAX_REORDERED = 5;

/** The same entries in an order that matches a rule. */
function otherOrder(searched: Search, nearest: NearestTexts): NearRule | undefined {
  const { length } = searched.entries;
  if (length < 2 || length > MAX_REORDERED) return undefined;
  try {
    return matchingOrder(searched, nearest);
  } catch (error) {
    if (error instanceof TooCostly) return undefined; // no more orders are tried
    throw error;
  }
}

function matchingOrder({ rules, domain, entries }: Search, nearest: NearestTexts): NearRule | undefined {
  for (const ordered of permutations(entries)) {
    if (!nearest.take()) return undefined;
    const found = match(rules, domain, { entries: ordered, requestLimit: undefined }, { work: nearest.work });
    if ('rule' in found) return nearRule(found.rule, ordered);
  }
  return undefined;
}

function* permutations<T>(items: readonly T[]): Iterable<readonly T[]> {
  if (items.length <= 1) yield items;
  for (const [at, first] of items.entries())
    if (items.length > 1) for (const rest of permutations(items.toSpliced(at, 1))) yield [first, ...rest];
}

/** Why a descriptor matches its rule, or none. */
interface Explanation {
  /** The matched rule; absent if none matches, or the limit came with the request. */
  readonly rule?: Rule;
  /** Why no rule matches. */
  readonly reason?: StopReason;
  /** One line of text in the terms of a trace; it contains text from callers. */
  readonly text: string;
}

/** Bounds that several explanations share. */
interface ExplainBounds {
  /** Bounds the texts that are compared. Default: for this descriptor alone. */
  readonly nearest?: NearestTexts;
  /** Bounds the patterns that are tried. Default: unbounded. */
  readonly work?: RequestWork;
}

/**
 * Explains which rule a descriptor matches, or where its search ends without one.
 *
 * @throws TooCostly
 */
export function explain(
  rules: RuleTree,
  domain: string,
  descriptor: Descriptor,
  { nearest, work }: ExplainBounds = {},
): Explanation {
  const found = search(rules, domain, descriptor, work);
  const stopped = findStop(found, nearest);
  if (stopped) return { reason: stopped.reason, text: stopped.why };
  if (descriptor.requestLimit || !('rule' in found.found)) return { text: 'the limit of the request itself' };
  const { rule } = found.found;
  return { rule, text: `rule ${describeRulePlace(rule)}` };
}
