import { sharedRules } from '../../../parts/shared-rules.ts';
import { parseMoney } from '../../algorithms/money.ts';
import type { SiteSplit } from '../../holds/claim.ts';
import { isReservation } from '../../holds/limits.ts';
import { isFixed } from '../match/matchers.ts';
import type { IdEntry, Naming, Node, Rule, RuleLimit, UnitCost } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { format, idKinds, notCounted, reserving } from '../read/format.ts';
import {
  compositeName,
  listLimits,
  type NodeHead,
  type Requirement,
  sharedKey,
  valueName,
} from '../read/node-source.ts';
import type { Problems } from '../read/problem.ts';
import { withBlocks } from './blocked-by.ts';
import { buildLimits } from './limit-over-time.ts';
import { NO_SHARES, type NodeModes } from './limits.ts';
import { buildResponse } from './response.ts';
import { readStatuses } from './statuses.ts';

/** The context of a level: the nodes above it. */
export interface Above {
  readonly domain: string;
  readonly levels: readonly string[];
  /** The domain and `levels`, joined by dots. */
  readonly path: string;
  /** The name of some level in statistics depends on the request. */
  readonly isNamedByRequest: boolean;
  readonly ids: readonly IdEntry[];
  readonly pools: NonNullable<Rule['pools']>;
  readonly keys: readonly string[];
  /** The number of entries whose order matters: the others may be sent in any; absent: all. */
  readonly orderedUpTo: number | undefined;
  /** The lists of ids on all paths of the domain, by places and keys. */
  readonly idsOfDomain: Map<string, readonly IdEntry[]>;
  readonly requirements: Requirement[];
  readonly node: Pick<Node, 'rule'> | undefined;
  /** Whether limits of the parent have `reserve`, valid or not. */
  readonly reserves: boolean;
  /** Whether the parent's limit, or its part of one, is shared, validly or not. */
  readonly shares: boolean;
  readonly split: SiteSplit | undefined;
  readonly problems: Problems;
}

/** The context of a domain's first level. */
export const topContext = (domain: string, split: SiteSplit | undefined, problems: Problems): Above => ({
  domain,
  levels: [],
  path: domain,
  isNamedByRequest: false,
  ids: [],
  pools: [],
  keys: [],
  orderedUpTo: undefined,
  idsOfDomain: new Map(),
  requirements: [],
  node: undefined,
  reserves: false,
  shares: false,
  split,
  problems,
});

/** The part of a node without its rule and its children. */
export function nodeTraits(head: NodeHead): Pick<Node, 'composite' | 'naming' | 'sharedValue' | 'countsAddresses'> {
  const { key = '', addresses, share_threshold: shares = false } = head;
  const composite = compositeName(head);
  return {
    composite,
    naming: chooseNaming(head),
    sharedValue: shares ? (isFixed(key) ? valueName(head) : composite) : undefined,
    countsAddresses: addresses && !shares ? true : undefined,
  };
}

/** The context for the children of a node that is not built yet. */
export function childContext(block: Block<'node'>, above: Above): Above {
  const { composite, sharedValue, countsAddresses } = nodeTraits(block.values);
  const at = above.levels.length;
  return {
    ...above,
    levels: [...above.levels, composite],
    path: `${above.path}.${composite}`,
    isNamedByRequest: above.isNamedByRequest || chooseNaming(block.values) !== 'rule',
    ids: readIds(block, above),
    keys: [...above.keys, block.values.key ?? ''],
    orderedUpTo: above.orderedUpTo ?? ((block.values as NodeHead).anyOrder ? at : undefined),
    pools: sharedValue !== undefined || countsAddresses ? [...above.pools, { at, value: sharedValue }] : above.pools,
    node: undefined,
    reserves: listLimits(block).some(({ values }) => reserving.some((key) => values[key] !== undefined)),
    shares: sharedKey(block.values) !== undefined,
  };
}

/** @param here  the context of the node's children */
export const buildNodeRule = (
  block: Block<'node'>,
  { above, here }: { readonly above: Above; readonly here: Above },
): Rule | undefined => {
  const { not_counted: notCounted, share } = block.values;
  if (notCounted === 'commit') return withBlocks(block, buildCommit(block, above), above);
  const own = share ? buildChildRule(block, { above, here }) : buildRule(block, here);
  const rule = own && sharing ? sharing.withReserved(block, own, above.problems) : own;
  return withBlocks(block, rule ?? emptyRule(block, here), above);
};

/** What builds rules that share a limit; undefined if the part was taken out. */
const [sharing] = Object.values(sharedRules);

/** The rule of a node without limits of its own, if limits of the node above apply to it. */
const emptyRule = (block: Block<'node'>, here: Above): Rule | undefined =>
  block.values.blocked_by && {
    ...describeNode(block, here),
    ...{ limits: [], unlimited: false, shadow: false, quota: false, replaces: [] },
  };

function buildChildRule(
  block: Block<'node'>,
  { above, here }: { readonly above: Above; readonly here: Above },
): Rule | undefined {
  const parent = { rule: above.node?.rule, depth: above.levels.length, shares: above.shares };
  if (!sharing) return above.problems.error(block.place('share'), NO_SHARES);
  const child = sharing.buildChild(block, parent, above.problems);
  return child && { ...describeNode(block, here), ...child, unlimited: false, replaces: [] };
}

/** What a rule has of its node. */
function describeNode(block: Block<'node'>, here: Above) {
  const { detailed_metric: isDetailed = false, charged_later: chargedLater = false, metadata } = block.values;
  const { file, line } = block.place();
  const response = buildResponse(block, here.problems);
  const { orderedUpTo = here.keys.length } = here;
  return {
    domain: here.domain,
    path: here.path,
    place: { file, line },
    levels: here.levels,
    named: isDetailed ? 'by_request' : here.isNamedByRequest ? 'by_levels' : 'by_rule',
    metadata,
    ...(here.ids.length > 0 && { ids: here.ids }),
    ...(here.pools.length > 0 && { pools: here.pools }),
    ...(orderedUpTo < here.keys.length - 1 && {
      anyOrder: { from: orderedUpTo, order: new Map(here.keys.map((key, at) => [key, at])) },
    }),
    ...(chargedLater && { chargedLater }),
    ...(response && { response }),
    ...(block.overlaid && { overlaid: block.overlaid }),
  } as const;
}

function readIds({ values, place }: Block<'node'>, above: Above): readonly IdEntry[] {
  const { not_counted: written, key = '', value = '', share_threshold: shares = false } = values;
  if (written === undefined || written === 'commit') return above.ids;
  const report = (message: string): readonly IdEntry[] => {
    above.problems.error(place('not_counted'), message);
    return above.ids;
  };
  const as = idKinds.find((one) => one === written);
  if (!as) return report(`not_counted must be ${notCounted.join(' or ')}, got '${written}'`);
  if (!isFixed(key)) return report(`not_counted: ${as} requires a key without '*', got '${key}'`);
  if (value !== '' && isFixed(value))
    return report(
      `not_counted: ${as} requires a node without a fixed value, since each request has its own id, got '${value}'`,
    );
  if (shares) return report(`not_counted: ${as} cannot be used with share_threshold: remove one of them`);
  if (above.ids.some((one) => one.as === as)) return report(`not_counted: ${as} is already set on a node above`);
  const ids = [...above.ids, { at: above.levels.length, key, as }];
  above.idsOfDomain.set(ids.map((one) => `${one.at} ${one.key}`).join('\n'), ids);
  return ids;
}

/** The rule of a node whose hits are what a request has used. Its limits are those of the parent that reserve. */
function buildCommit(block: Block<'node'>, { node, levels, reserves, problems }: Above): Rule | undefined {
  const rule = node?.rule;
  const { rate_limit: only, rate_limits: several, descriptors, key = '' } = block.values;
  const report = (message: string): undefined => problems.error(block.place('not_counted'), message);
  if (only || several || descriptors)
    return report(
      'not_counted: commit uses the limits of the node above: remove the limits and descriptors of this node',
    );
  if (!isFixed(key)) return report(`not_counted: commit requires a key without '*', got '${key}'`);
  const reserved = (rule?.limits ?? []).filter(({ limit }) => isReservation(limit));
  if (rule && reserved.length > 0) {
    const { schedule: whole, ...always } = rule;
    const schedule = whole?.map((one) => reserved.find((other) => other === one));
    const own = readUnitCost(block, reserved, problems);
    const countWhen = readStatuses(block, reserved, problems);
    return {
      ...always,
      ...(countWhen && { countWhen }),
      ...(own && { unitCost: { ...own, isPart: true } }),
      limits: reserved,
      ...(schedule && { schedule }),
      replaces: [],
      commitAt: levels.length,
    };
  }
  if (reserves) return undefined; // `reserve` itself is invalid, and already reported
  return report('not_counted: commit requires a limit with reserve on the node directly above');
}

/** An exact value is always part of the name; a shared counter has its pattern instead; an id is never shown. */
function chooseNaming(head: NodeHead): Naming {
  const { key = '', value = '', share_threshold: shares = false, value_to_metric: showsValue = false } = head;
  if (head.not_counted !== undefined) return 'rule';
  if (showsValue && !shares && (value === '' || !isFixed(value) || !isFixed(key))) return 'value';
  return isFixed(key) ? 'rule' : 'key';
}

function buildRule(block: Block<'node'>, here: Above): Rule | undefined {
  const {
    rate_limit: only,
    rate_limits: several,
    shadow_mode: shadow = false,
    quota_mode: quota = false,
  } = block.values;
  const { split, problems } = here;
  if (only && several) {
    problems.error(block.place('rate_limits'), 'rate_limits cannot be used with rate_limit: remove one of them');
  }
  const { minimum, maximum } = format.node.rate_limits;
  if (several && (several.length < minimum || several.length > maximum)) {
    const message = `rate_limits must hold ${minimum} to ${maximum} limits, got ${several.length}`;
    problems.error(block.place('rate_limits'), message);
  }
  const limitBlocks = listLimits(block);
  const shared = several?.find(({ values }) => values.share);
  if (shared) problems.error(shared.place('share'), 'share goes with rate_limit, not with rate_limits');
  if (limitBlocks.length === 0) return undefined;
  const hasId = here.ids.some(({ as }) => as === 'hold');
  /** envoyproxy/ratelimit, which only has `rate_limit`, ignores modes in it. */
  const readModes = (limitBlock: Block<'rate_limit'>): NodeModes =>
    limitBlock === only
      ? { shadow, quota, hasId, split }
      : { ...ownModes(limitBlock, { shadow, quota }), hasId, split };
  if (only) reportMisplacedModes(only, problems);
  const { limits, schedule } = buildLimits(limitBlocks, readModes, problems);
  const unlimited = limitBlocks.find(({ values }) => values.unlimited);
  if (unlimited && limitBlocks.length > 1) {
    problems.error(unlimited.place('unlimited'), 'unlimited cannot be used beside other limits: remove one of them');
  }
  const replaces = limitBlocks.flatMap((limitBlock) => buildReplaces(limitBlock, problems));
  const unitCost = readUnitCost(block, limits, problems);
  const countWhen = readStatuses(block, limits, problems);
  const budget = limitBlocks.find(({ values }) => values.budget !== undefined);
  if (budget && block.values.unit_cost === undefined && !block.invalid.has('unit_cost'))
    problems.error(
      budget.place('budget'),
      'budget requires unit_cost beside rate_limit: what a hit costs, such as 0.01 USD',
    );
  return {
    ...describeNode(block, here),
    limits,
    ...(unitCost && { unitCost }),
    ...(countWhen && { countWhen, chargedLater: true }),
    ...(schedule && { schedule }),
    unlimited: unlimited !== undefined,
    shadow,
    quota,
    replaces,
  };
}

/** What a hit costs the budgets among these limits. Undefined if the node has no price, or an invalid one. */
function readUnitCost(
  { values: { unit_cost: written }, place }: Block<'node'>,
  limits: readonly RuleLimit[],
  problems: Problems,
): UnitCost | undefined {
  if (written === undefined) return undefined;
  const report = (message: string): undefined => problems.error(place('unit_cost'), message);
  const cost = parseMoney(written);
  if (typeof cost === 'string')
    return report(`unit_cost must be a price such as 0.01 USD or 0.0025 USD per 1000, got '${written}': ${cost}`);
  const currencies = limits.flatMap(({ limit: { currency = [] } }) => currency);
  const other = currencies.find((currency) => currency !== cost.currency);
  if (other !== undefined) return report(`unit_cost must be in ${other}, the currency of the budget, got '${written}'`);
  return cost;
}

const ownModes = ({ values }: Block<'rate_limit'>, { shadow, quota }: NodeModes): NodeModes => ({
  shadow: values.shadow_mode ?? shadow,
  quota: values.quota_mode ?? quota,
});

function reportMisplacedModes({ values, place }: Block<'rate_limit'>, problems: Problems): void {
  for (const key of ['shadow_mode', 'quota_mode'] as const) {
    if (values[key] === undefined) continue;
    const message = `'${key}' has no effect in rate_limit and is ignored; put it on the node, or use rate_limits`;
    problems.warn(place(key), message);
  }
}

function buildReplaces(block: Block<'rate_limit'>, problems: Problems): readonly string[] {
  const { name: own = '', replaces = [] } = block.values;
  return replaces.flatMap(({ values: { name = '' }, invalid, place }) => {
    if (name !== '' && name !== own) return [name];
    if (invalid.has('name')) return [];
    const message =
      name === '' ? 'should not have an empty replaces entry' : 'replaces should not contain name of same descriptor';
    problems.error(place('name'), `${message}: expected the name of another limit, got '${name}'`);
    return [];
  });
}
