import type { SiteSplit } from '../algorithms/site-share.ts';
import { format, idKinds, notCounted } from './format.ts';
import { LevelBuilder, MAX_WILDCARD_KEYS } from './level-builder.ts';
import { allLimits, buildLimitOverTime, scheduleOf, withOwnCounters } from './limit-over-time.ts';
import type { NodeModes } from './limits.ts';
import { type NodeSource, nodesOf, type SourcedNode } from './node-source.ts';
import type { MayBeOverlaid, Overlaid } from './overlaid.ts';
import { type Problems, shown } from './problem.ts';
import type { Block } from './read.ts';
import { finish, type Steps } from './steps.ts';
import type { Domain, IdEntry, Level, Naming, Node, Rule, RuleLimit, RuleTree } from './tree.ts';
import { hasWildcard } from './wildcard.ts';

/**
 * Makes the tree of what was read, one domain a block. What is wrong goes to `problems`, all of it; the tree is good
 * for nothing then.
 *
 * @param mergeDomains  blocks of the same domain are put together, in the order given, instead of refused
 */
export function compile(
  blocks: readonly Block<'file'>[],
  mergeDomains: boolean,
  problems: Problems,
  split?: SiteSplit,
): RuleTree {
  const domains = Array.from(groupByDomain(blocks, mergeDomains, problems), ([name, parts]) =>
    finish(compileDomain(name, { ...parts, nodes: nodesOf(parts.nodes) }, problems, split)),
  );
  const rules = domains.flatMap((compiled) => compiled.rules);
  const characters = rules.reduce((sum, { path }) => sum + path.length, 0);
  const [first] = blocks;
  if (first && characters > MAX_PATH_CHARACTERS) {
    const message = `the paths of all rules, each the domain and the keys and values down to the rule, may have at most ${MAX_PATH_CHARACTERS} characters, got ${characters}`;
    problems.error(first.place('domain'), message);
  }
  return { domains: new Map(domains.map(({ domain }) => [domain.name, domain])), rules };
}

/** A few long keys above many rules would make `/rlconfig` larger than the memory. */
const MAX_PATH_CHARACTERS = 64 * 1024 * 1024;

/** A domain, and all its rules for listing. */
export interface CompiledDomain {
  readonly domain: Domain;
  readonly rules: readonly Rule[];
}

/** Makes the tree of one domain, a node a step. */
export function* compileDomain(
  name: string,
  parts: DomainNodes,
  problems: Problems,
  split?: SiteSplit,
): Steps<CompiledDomain> {
  const above = topOf(name, split);
  const { idsOfDomain } = above;
  const root = yield* buildLevel(parts.nodes, above, problems);
  const domain = {
    name,
    spend: parts.spend,
    root,
    ...(idsOfDomain.size > 0 && { ids: [...idsOfDomain.values()] }),
    ...(parts.overlaid && { overlaid: parts.overlaid }),
  };
  const rules: Rule[] = [];
  yield* listRules(domain.root, rules);
  return { domain, rules };
}

/** Lists the rules of a level and of all below it. */
function* listRules(level: Level, rules: Rule[]): Steps<void> {
  for (const { byValue, anyValue } of level.byKey.values()) {
    for (const { rule, children } of [...byValue.values(), ...(anyValue ? [anyValue] : [])]) {
      if (rule && rule.commitAt === undefined) rules.push(rule);
      if (children) yield* listRules(children, rules);
      yield 0.1; // far less work than compiling a node
    }
  }
}

export interface DomainParts extends MayBeOverlaid {
  readonly nodes: Block<'node'>[];
  spend: Domain['spend'];
  overlaid?: readonly Overlaid[] | undefined;
}

/** A domain whose nodes are read while they are compiled. */
export interface DomainNodes extends MayBeOverlaid {
  readonly nodes: NodeSource;
  readonly spend: Domain['spend'];
}

/** The blocks of each domain together. */
export function groupByDomain(blocks: readonly Block<'file'>[], mergeDomains: boolean, problems: Problems) {
  const byDomain = new Map<string, DomainParts>();
  for (const block of blocks) {
    const { domain = '', descriptors = [] } = block.values;
    const known = byDomain.get(domain);
    if (domain === '' && !block.wrong.has('domain')) {
      problems.error(block.place('domain'), 'config file cannot have empty domain: expected a name, got nothing');
    } else if (domain !== '' && known && !mergeDomains) {
      const hint = 'give each domain one file, or set MERGE_DOMAIN_CONFIG=true';
      problems.error(block.place('domain'), `duplicate domain '${domain}' in config file: ${hint}`);
    }
    const spend = readSpend(block, problems);
    if (known?.spend && spend && known.spend !== spend) {
      problems.error(
        block.place('spend'),
        `spend must be the same in all files of domain '${domain}', got ${known.spend} and ${spend}`,
      );
    }
    const parts: DomainParts = known ?? { nodes: [], spend: undefined };
    byDomain.set(domain === '' ? `(${block.place().file})` : domain, parts);
    for (const node of descriptors) parts.nodes.push(node);
    parts.spend = spend ?? parts.spend;
    if (block.overlaid) parts.overlaid = block.overlaid;
  }
  return byDomain;
}

function readSpend({ values: { spend: written }, place }: Block<'file'>, problems: Problems): Domain['spend'] {
  const { choices } = format.file.spend;
  const spend = choices.find((one) => one === written);
  if (written !== undefined && !spend)
    problems.error(place('spend'), `spend must be one of ${choices.join(', ')}, got '${written}'`);
  return spend;
}

/** What lies above a level. */
export interface Above {
  readonly domain: string;
  /** The composites of the nodes on the way down. */
  readonly levels: readonly string[];
  /** The domain and these, with dots between. */
  readonly path: string;
  /** Some level's name in statistics depends on the request. */
  readonly isNamedByRequest: boolean;
  /** The ids so far. */
  readonly ids: readonly IdEntry[];
  /** Those of each way down of the domain, by places and keys. */
  readonly idsOfDomain: Map<string, readonly IdEntry[]>;
  /** Of the node right above. */
  readonly rule: Rule | undefined;
  /** Whether limits of the node right above have `reserve`, right or wrong. */
  readonly reserves: boolean;
  readonly split: SiteSplit | undefined;
}

/** Above the first level of a domain. */
export const topOf = (domain: string, split: SiteSplit | undefined): Above => ({
  ...{ domain, levels: [], path: domain, isNamedByRequest: false },
  ...{ ids: [], idsOfDomain: new Map(), rule: undefined, reserves: false, split },
});

/** Compiles the nodes of one level, and all below them. */
function* buildLevel(nodes: NodeSource, above: Above, problems: Problems): Steps<Level> {
  const level = new LevelBuilder();
  let first: Block<'node'> | undefined;
  for (let sourced = nodes.next(); sourced; sourced = nodes.next()) {
    const { block } = sourced;
    first ??= block;
    const { key = '', value = '' } = block.values;
    const isRight = key !== '' && !block.wrong.has('key') && !block.wrong.has('value');
    if (key === '' && !block.wrong.has('key')) {
      problems.error(block.place('key'), 'descriptor has empty key: expected a name such as user, got nothing');
    } else if (isRight && level.has(key, value)) {
      const composite = `${shown(above.path)}.${shown(compositeOf(block))}`;
      const message = `duplicate descriptor composite key '${composite}'; what was given before has it too`;
      problems.error(block.place('key'), message);
    }
    const node = yield* buildNode(sourced, above, problems);
    if (value !== '' || isRight) level.add(key, value, node);
  }
  const { wildcardKeys } = level;
  if (first && wildcardKeys > MAX_WILDCARD_KEYS) {
    const message = `at most ${MAX_WILDCARD_KEYS} keys of one level may have a '*', got ${wildcardKeys}: put the '*' into values`;
    problems.error(first.place(), message);
    return yield* new LevelBuilder().build();
  }
  return yield* level.build();
}

const compositeOf = ({ values: { key = '', value = '' } }: Block<'node'>): string =>
  value === '' ? key : `${key}_${value}`;

function* buildNode({ block, below }: SourcedNode, above: Above, problems: Problems): Steps<Node> {
  const { node, here } = buildOwn(block, above, problems);
  yield 1;
  return { ...node, children: below && (yield* buildLevel(below, here, problems)) };
}

/** A node, and what lies above those below it. */
export function buildOwn(
  block: Block<'node'>,
  above: Above,
  problems: Problems,
): { readonly node: Omit<Node, 'children'>; readonly here: Above } {
  const { key = '', value = '', share_threshold: shares = false } = block.values;
  const composite = compositeOf(block);
  const naming = namingOf(block);
  const here = {
    domain: above.domain,
    levels: [...above.levels, composite],
    path: `${above.path}.${composite}`,
    isNamedByRequest: above.isNamedByRequest || naming !== 'rule',
    ids: readIds(block, above, problems),
    idsOfDomain: above.idsOfDomain,
    ...{ rule: undefined, reserves: false, split: above.split },
  };
  const isCommit = block.values.not_counted === 'commit';
  const rule = isCommit ? buildCommit(block, above, problems) : buildRule(block, here, problems);
  if (shares && !hasWildcard(composite) && !block.wrong.has('key') && !block.wrong.has('value')) {
    const message = `share_threshold can only be used with wildcard values (containing '*'), but found key '${composite}'`;
    problems.error(block.place('share_threshold'), message);
  }
  const sharedValue = shares ? (hasWildcard(key) ? composite : value) : undefined;
  return { node: { composite, naming, rule, sharedValue }, here: { ...here, rule, reserves: hasReserve(block) } };
}

/** The ids down to the node: those above, and its own. */
function readIds({ values, place }: Block<'node'>, above: Above, problems: Problems): readonly IdEntry[] {
  const { not_counted: written, key = '', value = '', share_threshold: shares = false } = values;
  if (written === undefined || written === 'commit') return above.ids;
  const wrong = (message: string): readonly IdEntry[] => {
    problems.error(place('not_counted'), message);
    return above.ids;
  };
  const as = idKinds.find((one) => one === written);
  if (!as) return wrong(`not_counted must be ${notCounted.join(' or ')}, got '${written}'`);
  if (hasWildcard(key)) return wrong(`not_counted: ${as} requires a key without '*', got '${key}'`);
  if (value !== '' && !hasWildcard(value))
    return wrong(
      `not_counted: ${as} requires a node for any value, since each request has an id of its own, got '${value}'`,
    );
  if (shares) return wrong(`not_counted: ${as} and share_threshold exclude one another: leave one of them out`);
  if (above.ids.some((one) => one.as === as))
    return wrong(`not_counted: ${as} stands on a node above this one already`);
  const ids = [...above.ids, { at: above.levels.length, key, as }];
  above.idsOfDomain.set(ids.map((one) => `${one.at} ${one.key}`).join('\n'), ids);
  return ids;
}

/** The rule of a node whose hits are what a request has used: the limits of the node above that reserve. */
function buildCommit(block: Block<'node'>, { rule, levels, reserves }: Above, problems: Problems): Rule | undefined {
  const { rate_limit: only, rate_limits: several, descriptors, key = '' } = block.values;
  const wrong = (message: string): undefined => problems.error(block.place('not_counted'), message);
  if (only || several || descriptors)
    return wrong('not_counted: commit takes the limits of the node above: leave its own limits and descriptors out');
  if (hasWildcard(key)) return wrong(`not_counted: commit requires a key without '*', got '${key}'`);
  const commits = new Map(
    (rule?.limits ?? []).flatMap((one): [RuleLimit, RuleLimit][] =>
      one.limit.algorithm === 'reservation' ? [[one, { ...one, limit: { ...one.limit, commits: true } }]] : [],
    ),
  );
  if (rule && commits.size > 0) {
    const { schedule: whole, ...always } = rule;
    const schedule = whole?.map((one) => commits.get(one));
    return {
      ...always,
      limits: [...commits.values()],
      ...(schedule && { schedule }),
      replaces: [],
      commitAt: levels.length,
    };
  }
  if (reserves) return undefined; // `reserve` itself is invalid, and already reported
  return wrong('not_counted: commit requires a limit with reserve on the node right above');
}

const hasReserve = ({ values: { rate_limit: only, rate_limits: several = [] } }: Block<'node'>): boolean =>
  [...(only ? [only] : several)].some(({ values }) => values.reserve !== undefined);

/** An exact value always shows itself; a shared counter always shows its pattern; an id is never shown. */
function namingOf({ values }: Block<'node'>): Naming {
  const { key = '', value = '', share_threshold: shares = false, value_to_metric: showsValue = false } = values;
  if (values.not_counted !== undefined) return 'rule';
  if (showsValue && !shares && (value === '' || hasWildcard(value) || hasWildcard(key))) return 'value';
  return hasWildcard(key) ? 'key' : 'rule';
}

function buildRule(block: Block<'node'>, here: Above, problems: Problems): Rule | undefined {
  const {
    rate_limit: only,
    rate_limits: several,
    shadow_mode: shadow = false,
    quota_mode: quota = false,
    detailed_metric: isDetailed = false,
    metadata,
  } = block.values;
  if (only && several) {
    problems.error(block.place('rate_limits'), 'rate_limit and rate_limits exclude one another: leave one of them out');
  }
  const { minimum, maximum } = format.node.rate_limits;
  if (several && (several.length < minimum || several.length > maximum)) {
    const message = `rate_limits must hold ${minimum} to ${maximum} limits, got ${several.length}`;
    problems.error(block.place('rate_limits'), message);
  }
  const limitBlocks = only ? [only] : (several ?? []);
  if (limitBlocks.length === 0) return undefined;
  const { split } = here;
  const hasId = here.ids.some(({ as }) => as === 'hold');
  /** envoyproxy/ratelimit, which has `rate_limit` alone, ignores modes in it. */
  const modesOf = (limitBlock: Block<'rate_limit'>): NodeModes =>
    limitBlock === only
      ? { shadow, quota, hasId, split }
      : { ...ownModes(limitBlock, { shadow, quota }), hasId, split };
  if (only) reportMisplacedModes(only, problems);
  const overTime = withOwnCounters(
    limitBlocks.flatMap((limitBlock, at) => {
      const built = buildLimitOverTime(limitBlock, at, modesOf(limitBlock), problems);
      return built ? [built] : [];
    }),
  );
  const schedule = scheduleOf(overTime);
  const unlimited = limitBlocks.find(({ values }) => values.unlimited);
  if (unlimited && limitBlocks.length > 1) {
    problems.error(unlimited.place('unlimited'), 'unlimited means nothing beside other limits: leave one of them out');
  }
  const replaces = limitBlocks.flatMap((limitBlock) => buildReplaces(limitBlock, problems));
  const { file, line } = block.place();
  return {
    domain: here.domain,
    path: here.path,
    place: { file, line },
    levels: here.levels,
    named: isDetailed ? 'by_request' : here.isNamedByRequest ? 'by_levels' : 'by_rule',
    limits: allLimits(overTime),
    ...(schedule && { schedule }),
    unlimited: unlimited !== undefined,
    shadow,
    quota,
    replaces,
    metadata,
    ...(here.ids.length > 0 && { ids: here.ids }),
    ...(block.overlaid && { overlaid: block.overlaid }),
  };
}

const ownModes = ({ values }: Block<'rate_limit'>, { shadow, quota }: NodeModes): NodeModes => ({
  shadow: values.shadow_mode ?? shadow,
  quota: values.quota_mode ?? quota,
});

function reportMisplacedModes({ values, place }: Block<'rate_limit'>, problems: Problems): void {
  for (const key of ['shadow_mode', 'quota_mode'] as const) {
    if (values[key] === undefined) continue;
    const message = `'${key}' means nothing in rate_limit and is ignored; put it on the node, or use rate_limits`;
    problems.warn(place(key), message);
  }
}

function buildReplaces(block: Block<'rate_limit'>, problems: Problems): readonly string[] {
  const { name: own = '', replaces = [] } = block.values;
  return replaces.flatMap(({ values: { name = '' }, wrong, place }) => {
    if (name !== '' && name !== own) return [name];
    if (wrong.has('name')) return [];
    const message =
      name === '' ? 'should not have an empty replaces entry' : 'replaces should not contain name of same descriptor';
    problems.error(place('name'), `${message}: expected the name of another limit, got '${name}'`);
    return [];
  });
}
