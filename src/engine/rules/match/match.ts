import type { Clock } from '../../../base/clock.ts';
import type { RequestWork } from '../../../base/request-work.ts';
import { statedThreshold } from '../../holds/sharing.ts';
import { countedAddress } from './addresses.ts';
import type { Domain, IdEntry, KeyOrder, Level, Node, Rule, RuleLimit, RuleTree } from './tree.ts';

/** One part of a descriptor, as the caller sent it. Either text may be anything. */
export interface Entry {
  readonly key: string;
  readonly value: string;
}

/** A list of entries that a request is counted by: a path down the rule tree of its domain. */
export interface Descriptor {
  readonly entries: readonly Entry[];
  readonly requestLimit: RequestLimit | undefined;
}

/** A caller's limit, which overrides that of the rules, or why it is invalid: reported once the domain is known. */
export type RequestLimit = { readonly limit: RuleLimit } | { readonly problem: string };

/** The result of matching a descriptor against the rules. */
export type Match =
  | Miss
  | { readonly kind: 'invalid_request_limit'; readonly problem: string }
  | { readonly kind: 'unlimited'; readonly rule: Rule /** By an override. */; readonly exempt?: true }
  | {
      readonly kind: 'limited';
      readonly rule: Rule;
      /** The rule's limits that apply: all, unless another match replaced some. At least one. */
      readonly limits: readonly RuleLimit[];
      /** The entries in the counter's name: the descriptor's, except for shared values, without ids of the request. */
      readonly entries: readonly Entry[];
      /** Id of the request in flight; absent if the rule has none. */
      readonly id?: string;
      /** See `Claim`; absent if no entry states the priority of the request. */
      readonly threshold?: number;
      /** The hits are the amount that the request has used of its reservation. */
      readonly commits?: true;
      /** An operator's limit or block takes the place of the rule's limits. */
      readonly overridden?: true;
      /** The entries that name children of a shared limit, from the top; absent if there are none. */
      readonly children?: readonly Entry[];
      /** The levels of its name in statistics: the rule's own, or the descriptor's entries. */
      readonly levels: readonly string[];
    };

/** A descriptor that no rule matches. `reason` is absent if another match replaces all limits of its rule. */
export type Miss =
  | { readonly kind: 'no_domain'; readonly reason?: MissReason }
  | { readonly kind: 'no_rule'; readonly reason?: MissReason };

/** Why a descriptor ended without a limit. */
export const stopReasons = {
  no_domain: 'no rules have the domain',
  no_such_key: 'the level has no node with the key',
  value_differs: 'the level has the key, but only with other values',
  wildcard_fails: 'the level has the key, but no pattern matches the value',
  path_too_short: 'the descriptor ends above the rules',
  path_too_long: 'the descriptor continues below the last rule',
  required_key_missing: 'the request lacks a key that the rules require',
  invalid_limit: 'the limit in the request is not valid',
} as const;
export type StopReason = keyof typeof stopReasons;

/** Why a search ended without a rule. */
export type MissReason = Exclude<StopReason, 'invalid_limit' | 'required_key_missing'>;

const missedBy = (reason: MissReason): Required<Miss> => ({
  kind: reason === 'no_domain' ? 'no_domain' : 'no_rule',
  reason,
});
const NO_DOMAIN = missedBy('no_domain');
const NO_SUCH_KEY = missedBy('no_such_key');
const VALUE_DIFFERS = missedBy('value_differs');
const WILDCARD_FAILS = missedBy('wildcard_fails');
const PATH_TOO_SHORT = missedBy('path_too_short');
const PATH_TOO_LONG = missedBy('path_too_long');
const REPLACED: Miss = { kind: 'no_rule' };

/**
 * Finds the limits that apply to each descriptor of a request now, without those that another descriptor's rule
 * replaces.
 *
 * @param clock     only read if limits depend on the time
 * @param work      charged before patterns are tried
 * @param override  returns what applies to the descriptor at this index instead of its match, whatever replaces that
 * @throws TooCostly
 */
export function matchAll(
  rules: RuleTree,
  domain: string,
  descriptors: readonly Descriptor[],
  { clock, work, override }: MatchOptions,
): readonly Match[] {
  const found = rules.domains.get(domain);
  if (!found) return descriptors.map(() => NO_DOMAIN);
  const matches = descriptors.map((descriptor) => atTime(matchIn(found, rules, descriptor, { work }), clock));
  if (!override && !matches.some(isReplacing)) return matches;
  const replaced = new Set(matches.flatMap((found) => ('rule' in found ? found.rule.replaces : [])));
  return matches.map((found, at) => {
    const applied = override?.(found, at) ?? found;
    return applied === found ? withoutReplaced(found, replaced) : applied;
  });
}

const isReplacing = (found: Match): boolean => 'rule' in found && found.rule.replaces.length > 0;

interface MatchOptions {
  readonly clock: Clock;
  readonly work?: RequestWork;
  readonly override?: ((found: Match, at: number) => Match) | undefined;
}

function withoutReplaced(found: Match, replaced: ReadonlySet<string>): Match {
  if (found.kind !== 'limited' || replaced.size === 0) return found;
  const limits = found.limits.filter(({ label: { name } }) => !replaced.has(name));
  return limits.length === 0 ? REPLACED : { ...found, limits };
}

/** A match with the limits that apply now. If there are none, nothing is counted. */
export function atTime(found: Match, clock: Clock): Match {
  if (found.kind !== 'limited' || found.rule.schedule === undefined) return found;
  const limits = found.rule.schedule.at(clock());
  return limits.length === 0 ? { kind: 'unlimited', rule: found.rule } : { ...found, limits };
}

interface Search {
  /** Called when a level has been searched for an entry; the level is undefined if the tree has none there. */
  readonly onLevel?: (entry: Entry, level: Level | undefined, found: Node | undefined) => void;
  readonly work?: RequestWork | undefined;
}

/**
 * Finds the rule for one descriptor: its entries are followed down the tree, one level each, and the rule of the last
 * node applies. On each level, the exact value takes precedence, then the longest block of addresses that contains the
 * value, then the first `*` that matches, then the key alone. There is no backtracking, even if the chosen node leads
 * nowhere. Below `match: any_order`, the entries are sorted first. The result has the limits of all times: see `atTime`.
 */
export function match(rules: RuleTree, domainName: string, descriptor: Descriptor, search: Search = {}): Match {
  const domain = rules.domains.get(domainName);
  return domain ? matchIn(domain, rules, descriptor, search) : NO_DOMAIN;
}

function matchIn(
  domain: Domain,
  rules: RuleTree,
  { entries: given, requestLimit }: Descriptor,
  { onLevel, work }: Search,
): Match {
  if (requestLimit && 'problem' in requestLimit)
    return { kind: 'invalid_request_limit', problem: requestLimit.problem };
  if (requestLimit)
    return limited(createRequestRule(domain, namedEntries(given, rules), requestLimit.limit), given, given);

  const entries = inRuleOrder(domain, given, work, rules.isOpaque);
  let level: Level | undefined = domain.root;
  let last: Node | undefined;
  let shared: Entry[] | undefined;
  for (const [depth, entry] of entries.entries()) {
    const node: Node | undefined = level && findNode(level, entry, work, rules.isOpaque);
    onLevel?.(entry, level, node);
    if (!node) return level ? missAt(level, entry) : PATH_TOO_LONG;
    const counted = node.sharedValue ?? (node.countsAddresses ? countedAddress(entry.value) : undefined);
    if (counted !== undefined) {
      shared ??= [...entries];
      shared[depth] = { key: entry.key, value: counted };
    }
    last = node;
    level = node.children;
  }
  const rule = last?.rule; // the rules of the nodes above are not needed, and may not have been built
  return rule ? limited(rule, shared ?? entries, entries, rules, work) : PATH_TOO_SHORT;
}

/** The entries in the order of the rules, of which some match them in any order. */
export function inRuleOrder(
  { root, reorders }: Domain,
  entries: readonly Entry[],
  work?: RequestWork,
  isOpaque?: RuleTree['isOpaque'],
): readonly Entry[] {
  if (!reorders) return entries;
  let level: Level | undefined = root;
  for (let depth = 0; level && depth < entries.length - 1; depth++) {
    if (level.order) return sorted(entries, depth, level.order);
    level = findNode(level, entries[depth] as Entry, work, isOpaque)?.children; // in range
  }
  return entries;
}

/** The entries from a place on in this order; those with other keys come last. */
function sorted(entries: readonly Entry[], from: number, order: KeyOrder): readonly Entry[] {
  const placeOf = ({ key }: Entry): number => order.get(key) ?? order.size;
  let last = 0;
  for (let at = from; at < entries.length; at++) {
    const place = placeOf(entries[at] as Entry); // in range
    if (place < last)
      return [
        ...entries.slice(0, from),
        ...entries.slice(from).sort((one, other) => placeOf(one) - placeOf(other)), // which is stable
      ];
    last = place;
  }
  return entries;
}

/** Why no node of a level was found for an entry. */
export function missAt(level: Level, { key }: Entry): Required<Miss> {
  const branch = level.byKey.get(key);
  if (!branch) return NO_SUCH_KEY;
  return branch.patterns || branch.keyPatterns ? WILDCARD_FAILS : VALUE_DIFFERS;
}

/**
 * @param sent  the entries as the caller sent them
 * @param rules  absent if the rule came with the request
 */
function limited(
  rule: Rule,
  entries: readonly Entry[],
  sent: readonly Entry[],
  rules?: RuleTree,
  work?: RequestWork,
): Match {
  if (rule.unlimited) return { kind: 'unlimited', rule };
  const levels = rule.named === 'by_rule' || !rules ? rule.levels : nameLevels(rule, sent, rules, work);
  const found = { kind: 'limited', rule, limits: rule.limits, entries, levels } as const;
  if (rule.sharedBelow !== undefined) return sharing(found, rule.sharedBelow, sent);
  return rule.ids === undefined ? found : withoutIds(found, rule.ids, sent);
}

type LimitedMatch = Extract<Match, { kind: 'limited' }>;

function withoutIds(
  { rule, entries, levels }: LimitedMatch,
  ids: readonly IdEntry[],
  sent: readonly Entry[],
): LimitedMatch {
  const hold = ids.find(({ as }) => as === 'hold');
  const priority = ids.find(({ as }) => as === 'priority');
  const counted = countedEntries(rule, entries);
  const found: LimitedMatch = {
    kind: 'limited',
    rule,
    limits: rule.limits,
    entries: counted,
    levels,
    ...(hold && { id: sent[hold.at]?.value ?? '' }),
    ...(priority && { threshold: statedThreshold(sent[priority.at]?.value ?? '') }),
  };
  if (rule.commitAt === undefined) return found;
  return {
    ...found,
    entries: counted.slice(0, -1),
    levels: levels.slice(0, rule.levels.length),
    commits: true,
  };
}

/** @param below  the number of entries of the node whose limit is shared */
function sharing({ rule, entries, levels }: LimitedMatch, below: number, sent: readonly Entry[]): Match {
  const above = entries.slice(0, below);
  const children = entries.slice(below);
  const found: LimitedMatch = { kind: 'limited', rule, limits: rule.limits, entries: above, children, levels };
  return rule.ids === undefined ? found : { ...withoutIds(found, rule.ids, sent), children };
}

/** What names the counter of a match. */
export type Counted = Pick<LimitedMatch, 'entries' | 'children'>;

/** The entries in the name of a counter, and those that name children of its limit. */
export const countedBy = ({ entries, children }: Counted): readonly Entry[] =>
  children ? [...entries, ...children] : entries;

/** The entries in the order of a rule that they match, to which the places of its ids refer. */
export const orderedBy = ({ anyOrder }: Pick<Rule, 'anyOrder'>, sent: readonly Entry[]): readonly Entry[] =>
  anyOrder ? sorted(sent, anyOrder.from, anyOrder.order) : sent;

/**
 * The entries in the name of a descriptor's counter, and the children of a shared limit: all but ids of the request, and
 * one value for all that share a counter.
 */
export function countedEntries(
  rule: Pick<Rule, 'ids' | 'pools' | 'anyOrder'>,
  sent: readonly Entry[],
): readonly Entry[] {
  const { ids, pools } = rule;
  const entries = orderedBy(rule, sent);
  const pooled = pools
    ? entries.map((entry, at) => {
        const pool = pools.find((one) => one.at === at);
        return pool ? { key: entry.key, value: pool.value ?? countedAddress(entry.value) } : entry;
      })
    : entries;
  return ids === undefined ? pooled : pooled.filter((_, at) => !ids.some((id) => id.at === at));
}

/** The names of the levels that the entries follow to a rule, for statistics. */
function nameLevels(
  { domain, named, ids }: Rule,
  sent: readonly Entry[],
  rules: RuleTree,
  work: RequestWork | undefined,
): readonly string[] {
  const nodes = followEntries(sent, rules.domains.get(domain)?.root, work, rules.isOpaque);
  const entries = namedEntries(sent, rules, nodes);
  if (named === 'by_levels') return nodes.map((node, depth) => nameLevel(node, entries[depth]));
  const isShared = nodes.some(({ sharedValue }) => sharedValue !== undefined);
  return entries.map(({ key, value }, depth) => {
    const sharedValue = nodes[depth]?.sharedValue;
    if (sharedValue !== undefined) return `${key}_${sharedValue}`;
    if (ids?.some(({ at }) => at === depth)) return key;
    return isShared ? joined(key, value) : `${key}_${value}`;
  });
}

/** The entries as statistics show them: values that a rule names are unchanged. */
function namedEntries(
  entries: readonly Entry[],
  { shownValue }: RuleTree,
  nodes: readonly Node[] = [],
): readonly Entry[] {
  if (!shownValue) return entries;
  return entries.map(({ key, value }, depth) => {
    const isOfRule = value === '' || nodes[depth]?.composite === joined(key, value);
    return { key, value: isOfRule ? value : shownValue(value) };
  });
}

function nameLevel({ naming, composite, sharedValue }: Node, { key, value }: Entry = { key: '', value: '' }): string {
  if (sharedValue !== undefined) return `${key}_${sharedValue}`;
  const sent = joined(key, value);
  if (naming === 'rule' || sent === composite) return composite; // a caller may send the pattern itself
  return naming === 'key' ? `${key}_${composite}` : sent;
}

/** The nodes that the entries follow down the tree, one per level. */
export function followEntries(
  entries: readonly Entry[],
  root: Level | undefined,
  work?: RequestWork,
  isOpaque?: RuleTree['isOpaque'],
): readonly Node[] {
  let level = root;
  return entries.flatMap((entry) => {
    const node: Node | undefined = level && findNode(level, entry, work, isOpaque);
    level = node?.children;
    return node ? [node] : [];
  });
}

const joined = (key: string, value: string): string => (value === '' ? key : `${key}_${value}`);

/** The node of a level that matches an entry. @param isOpaque  see `RuleTree` */
export function findNode(
  level: Level,
  { key, value }: Entry,
  work?: RequestWork,
  isOpaque?: RuleTree['isOpaque'],
): Node | undefined {
  const branch = level.byKey.get(key);
  const exact = branch && branch.byValue.size > 0 ? branch.byValue.get(value) : undefined; // V8 hashes texts lazily
  if (exact) return exact;
  const addressed = branch?.addresses?.find(value);
  if (addressed) return addressed;
  const byKey = branch ? branch.keyPatterns : level.keyPatterns;
  if (isOpaque?.(value))
    return (
      byKey?.all.find((one) => one.value.kind === 'any_value' && one.key.matches(key, work))?.node ?? branch?.anyValue
    );
  const found = branch?.patterns?.find(key, value, work);
  const other = byKey?.find(key, value, work);
  const first = found && other && found.rank < other.rank ? found : (other ?? found);
  return first?.node ?? branch?.anyValue;
}

/** The equivalent rule of a caller's own limit: no mode, no name, statistics under every key and value. */
function createRequestRule(domain: Domain, entries: readonly Entry[], limit: RuleLimit): Rule {
  const levels = entries.map(({ key, value }) => joined(key, value));
  return {
    domain: domain.name,
    path: `${domain.name}.${levels.join('.')}`,
    place: undefined,
    levels,
    named: 'by_request',
    limits: [limit],
    unlimited: false,
    shadow: false,
    quota: false,
    replaces: [],
    metadata: undefined,
  };
}

/**
 * The descriptors that have these entries plus ids, and therefore the same counters.
 *
 * @param value  of the ids
 */
export const withIds = (
  rules: RuleTree,
  domain: string,
  entries: readonly Entry[],
  value = '',
): readonly (readonly Entry[])[] =>
  (rules.domains.get(domain)?.ids ?? []).flatMap((ids) => {
    const sent = [...entries];
    for (const { at, key } of ids) sent.splice(at, 0, { key, value });
    return ids.every(({ at, key }) => sent[at]?.key === key) ? [sent] : [];
  });
