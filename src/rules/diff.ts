import { findChanges } from './changes.ts';
import { type Entry, match } from './match.ts';
import type { Level, Node, Rule, RuleLimit, RuleTree } from './tree.ts';

/** What replacing one rule set by another does. */
export interface RuleDiff {
  readonly added: readonly AddedRule[];
  readonly removed: readonly RemovedRule[];
  readonly changed: readonly ChangedRule[];
  /** Domains whose requests spend otherwise, by name. */
  readonly spends: ReadonlyMap<string, { readonly before: string | undefined; readonly after: string | undefined }>;
}

export interface AddedRule {
  readonly rule: Rule;
  /** The rule that its descriptors met before; undefined: none. */
  readonly before: Rule | undefined;
  readonly counters: readonly CounterFate[];
}

export interface RemovedRule {
  readonly rule: Rule;
  /** The rule that its descriptors meet now; undefined: none. */
  readonly after: Rule | undefined;
}

export interface ChangedRule {
  readonly before: Rule;
  readonly after: Rule;
  readonly counters: readonly CounterFate[];
}

/** Whether the counters of a limit go on as they are, or are new. */
export interface CounterFate {
  readonly limit: RuleLimit;
  readonly isKept: boolean;
}

/** Compares rules by their paths. Counters go on where their names stay: by algorithm, window and entries. */
export async function diffRules(before: RuleTree, after: RuleTree): Promise<RuleDiff> {
  const { added, removed, changed } = await findChanges({ rules: before, packed: [] }, { rules: after, packed: [] });
  const old = placesOf(before);
  const now = placesOf(after);
  return {
    added: added.flatMap((path) => {
      const place = now.get(path);
      if (!place) return [];
      const met = metBy(before, old, place);
      return { rule: place.rule, before: met?.rule, counters: fatesOf(met, place) };
    }),
    removed: removed.flatMap((path) => {
      const place = old.get(path);
      return place ? { rule: place.rule, after: metBy(after, now, place)?.rule } : [];
    }),
    changed: [...changed, ...regrouped(old, now, changed)].flatMap((path) => {
      const [was, is] = [old.get(path), now.get(path)];
      return was && is ? { before: was.rule, after: is.rule, counters: fatesOf(was, is) } : [];
    }),
    spends: spendsOf(before, after),
  };
}

/** A rule, and what names its counters. */
interface RulePlace {
  readonly rule: Rule;
  /** One a level: the text that stands for the values that share one counter; undefined: each value has its own. */
  readonly shared: readonly (string | undefined)[];
  /** A descriptor that meets it; for any value, and for a pattern, with one that no rule names. */
  readonly entries: readonly Entry[];
}

function placesOf({ domains }: RuleTree): ReadonlyMap<string, RulePlace> {
  const places = new Map<string, RulePlace>();
  for (const { root } of domains.values()) addPlaces(places, root, [], []);
  return places;
}

function addPlaces(
  into: Map<string, RulePlace>,
  { byKey, keyWildcards }: Level,
  shared: RulePlace['shared'],
  entries: RulePlace['entries'],
): void {
  const add = (node: Node, entry: Entry): void => {
    const below = [...entries, entry];
    const sharedBelow = [...shared, node.sharedValue];
    if (node.rule && !into.has(node.rule.path))
      into.set(node.rule.path, { rule: node.rule, shared: sharedBelow, entries: below });
    if (node.children) addPlaces(into, node.children, sharedBelow, below);
  };
  for (const [key, { byValue, anyValue, wildcards }] of byKey) {
    for (const [value, node] of byValue) add(node, { key, value });
    if (anyValue) add(anyValue, { key, value: UNNAMED_VALUE });
    for (const { node, value } of wildcards.all) add(node, { key, value: unnamed(value?.text) });
  }
  for (const { node, key, value } of keyWildcards.all)
    add(node, { key: unnamed(key.text), value: unnamed(value?.text) });
}

/** No rule names it: what meets a rule for any value. */
const UNNAMED_VALUE = '\u0000';

/** What matches a pattern, and is named by no rule. */
const unnamed = (pattern = '*'): string => pattern.replaceAll('*', UNNAMED_VALUE);

function metBy(
  rules: RuleTree,
  places: ReadonlyMap<string, RulePlace>,
  { rule, entries }: RulePlace,
): RulePlace | undefined {
  const found = match(rules, rule.domain, { entries, requestLimit: undefined });
  return 'rule' in found ? places.get(found.rule.path) : undefined;
}

/** Where the entries stand that counters are not named by. */
const idPlaces = ({ ids = [] }: Rule): string => ids.map(({ at }) => at).join();

function fatesOf(before: RulePlace | undefined, after: RulePlace): readonly CounterFate[] {
  const isNamedAlike =
    before !== undefined &&
    idPlaces(before.rule) === idPlaces(after.rule) &&
    before.shared.every((text, at) => text === after.shared[at]);
  const counters = new Set(before?.rule.limits.map(({ limit }) => limit.counter));
  return after.rule.limits.map((limit) => ({
    limit,
    isKept: isNamedAlike && counters.has(limit.limit.counter),
  }));
}

/** Rules that say the same, but whose values share counters otherwise. */
function regrouped(
  old: ReadonlyMap<string, RulePlace>,
  now: ReadonlyMap<string, RulePlace>,
  changed: readonly string[],
): readonly string[] {
  const known = new Set(changed);
  return [...now].flatMap(([path, { shared }]) => {
    const was = old.get(path);
    return was && !known.has(path) && shared.some((text, at) => text !== was.shared[at]) ? [path] : [];
  });
}

function spendsOf(before: RuleTree, after: RuleTree): RuleDiff['spends'] {
  const spends = new Map<string, { readonly before: string | undefined; readonly after: string | undefined }>();
  for (const [name, { spend }] of after.domains) {
    const was = before.domains.get(name);
    if (was && was.spend !== spend) spends.set(name, { before: was.spend, after: spend });
  }
  return spends;
}
