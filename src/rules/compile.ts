import type { Limit } from '../algorithms/limit.ts';
import { format } from './format.ts';
import { buildLimit } from './limits.ts';
import type { Place, Problem } from './problem.ts';
import type { Block } from './read.ts';
import type { Branch, Domain, Level, Naming, Node, Rule, RuleTree, WildcardNode } from './tree.ts';
import { compileWildcard, hasWildcard } from './wildcard.ts';
import { createWildcardIndex } from './wildcard-index.ts';

/**
 * Makes the tree of what was read, one domain a block. What is wrong goes to `problems`, all of it; the tree is good for nothing then.
 *
 * @param mergeDomains  blocks of the same domain are put together, in the order given, instead of refused
 */
export function compile(blocks: readonly Block<'file'>[], mergeDomains: boolean, problems: Problem[]): RuleTree {
  const domains = new Map<string, Domain>();
  for (const [name, { nodes, spend }] of groupByDomain(blocks, mergeDomains, problems)) {
    const above = { domain: name, levels: [], isNamedByRequest: false };
    domains.set(name, { name, spend, root: buildLevel(nodes, above, problems) });
  }
  return { domains, rules: [...domains.values()].flatMap(({ root }) => rulesOf(root)) };
}

/** The rules of a level and of all below it. */
function rulesOf(level: Level): readonly Rule[] {
  const nodes = [...level.byKey.values()].flatMap(({ byValue, anyValue }) => [
    ...byValue.values(),
    ...(anyValue ? [anyValue] : []),
  ]);
  return nodes.flatMap(({ rule, children }) => [...(rule ? [rule] : []), ...(children ? rulesOf(children) : [])]);
}

interface DomainParts {
  readonly nodes: readonly Block<'node'>[];
  readonly spend: Domain['spend'];
}

function groupByDomain(blocks: readonly Block<'file'>[], mergeDomains: boolean, problems: Problem[]) {
  const byDomain = new Map<string, DomainParts>();
  for (const block of blocks) {
    const { domain = '', descriptors = [] } = block.values;
    const known = byDomain.get(domain);
    if (domain === '' && !block.wrong.has('domain')) {
      report(problems, block.place('domain'), 'config file cannot have empty domain: wanted a name, got nothing');
    } else if (domain !== '' && known && !mergeDomains) {
      const hint = 'give each domain one file, or set MERGE_DOMAIN_CONFIG=true';
      report(problems, block.place('domain'), `duplicate domain '${domain}' in config file: ${hint}`);
    }
    const spend = readSpend(block, problems);
    if (known?.spend && spend && known.spend !== spend) {
      report(
        problems,
        block.place('spend'),
        `spend must be the same in all files of domain '${domain}', got ${known.spend} and ${spend}`,
      );
    }
    byDomain.set(domain === '' ? `(${block.place().file})` : domain, {
      nodes: [...(known?.nodes ?? []), ...descriptors],
      spend: spend ?? known?.spend,
    });
  }
  return byDomain;
}

function readSpend({ values: { spend: written }, place }: Block<'file'>, problems: Problem[]): Domain['spend'] {
  const { choices } = format.file.spend;
  const spend = choices.find((one) => one === written);
  if (written !== undefined && !spend)
    report(problems, place('spend'), `spend must be one of ${choices.join(', ')}, got '${written}'`);
  return spend;
}

function report(problems: Problem[], place: Place, message: string, severity: Problem['severity'] = 'error'): void {
  problems.push({ ...place, severity, message });
}

interface Branching {
  readonly byValue: Map<string, Node>;
  anyValue: Node | undefined;
}

/** What lies above a level. */
interface Above {
  readonly domain: string;
  /** The composites of the nodes on the way down. */
  readonly levels: readonly string[];
  /** Some level's name in statistics depends on the request. */
  readonly isNamedByRequest: boolean;
}

const pathOf = ({ domain, levels }: Above): string => [domain, ...levels].join('.');

/** Compiles the nodes of one level, and all below them. */
function buildLevel(blocks: readonly Block<'node'>[], above: Above, problems: Problem[]): Level {
  const byKey = new Map<string, Branching>();
  const wildcards: WildcardNode[] = [];
  for (const block of blocks) {
    const { key = '', value = '' } = block.values;
    const branch = byKey.get(key) ?? { byValue: new Map(), anyValue: undefined };
    byKey.set(key, branch);
    const isRight = key !== '' && !block.wrong.has('key') && !block.wrong.has('value');
    if (key === '' && !block.wrong.has('key')) {
      report(problems, block.place('key'), 'descriptor has empty key: wanted a name such as user, got nothing');
    } else if (isRight && (value === '' ? branch.anyValue : branch.byValue.has(value))) {
      report(
        problems,
        block.place('key'),
        `duplicate descriptor composite key '${pathOf(above)}.${compositeOf(block)}'; what was given before has it too`,
      );
    }
    const node = buildNode(block, above, problems);
    if (value !== '') branch.byValue.set(value, node);
    else if (isRight) branch.anyValue = node;
    if (hasWildcard(key) || hasWildcard(value)) {
      wildcards.push({ key: compileWildcard(key), value: value === '' ? undefined : compileWildcard(value), node });
    }
  }
  const keyWildcards = wildcards.filter(({ key }) => hasWildcard(key.text));
  const withWildcards = ([key, branch]: [string, Branching]): [string, Branch] => {
    const own = wildcards.filter((wildcard) => wildcard.key.matches(key));
    return [key, { ...branch, wildcards: createWildcardIndex(own, 'value') }];
  };
  return {
    byKey: new Map([...byKey].map(withWildcards)),
    keyWildcards: createWildcardIndex(keyWildcards, 'key'),
  };
}

const compositeOf = ({ values: { key = '', value = '' } }: Block<'node'>): string =>
  value === '' ? key : `${key}_${value}`;

function buildNode(block: Block<'node'>, above: Above, problems: Problem[]): Node {
  const { key = '', value = '', share_threshold: shares = false, descriptors = [] } = block.values;
  const composite = compositeOf(block);
  const naming = namingOf(block);
  const here = {
    domain: above.domain,
    levels: [...above.levels, composite],
    isNamedByRequest: above.isNamedByRequest || naming !== 'rule',
  };
  const rule = buildRule(block, here, problems);
  if (shares && !hasWildcard(composite) && !block.wrong.has('key') && !block.wrong.has('value')) {
    const message = `share_threshold can only be used with wildcard values (containing '*'), but found key '${composite}'`;
    report(problems, block.place('share_threshold'), message);
  }
  return {
    composite,
    naming,
    rule,
    children: descriptors.length > 0 ? buildLevel(descriptors, here, problems) : undefined,
    sharedValue: shares ? (hasWildcard(key) ? composite : value) : undefined,
  };
}

/** An exact value always shows itself; a shared counter always shows its pattern. */
function namingOf({ values }: Block<'node'>): Naming {
  const { key = '', value = '', share_threshold: shares = false, value_to_metric: showsValue = false } = values;
  if (showsValue && !shares && (value === '' || hasWildcard(value) || hasWildcard(key))) return 'value';
  return hasWildcard(key) ? 'key' : 'rule';
}

function buildRule(block: Block<'node'>, here: Above, problems: Problem[]): Rule | undefined {
  const {
    rate_limit: only,
    rate_limits: several,
    shadow_mode: shadow = false,
    quota_mode: quota = false,
    detailed_metric: isDetailed = false,
    metadata,
  } = block.values;
  if (only && several) {
    report(
      problems,
      block.place('rate_limits'),
      'rate_limit and rate_limits exclude one another: leave one of them out',
    );
  }
  const { minimum, maximum } = format.node.rate_limits;
  if (several && (several.length < minimum || several.length > maximum)) {
    const message = `rate_limits must hold ${minimum} to ${maximum} limits, got ${several.length}`;
    report(problems, block.place('rate_limits'), message);
  }
  const limitBlocks = only ? [only] : (several ?? []);
  if (limitBlocks.length === 0) return undefined;
  const limits = withOwnCounters(limitBlocks.flatMap((limitBlock) => buildLimit(limitBlock, problems) ?? []));
  const unlimited = limitBlocks.find(({ values }) => values.unlimited);
  if (unlimited && limitBlocks.length > 1) {
    report(
      problems,
      unlimited.place('unlimited'),
      'unlimited means nothing beside other limits: leave one of them out',
    );
  }
  const replaces = limitBlocks.flatMap((limitBlock) => buildReplaces(limitBlock, problems));
  return {
    path: pathOf(here),
    levels: here.levels,
    named: isDetailed ? 'by_request' : here.isNamedByRequest ? 'by_levels' : 'by_rule',
    limits,
    unlimited: unlimited !== undefined,
    shadow,
    quota,
    replaces,
    metadata,
  };
}

/** Several limits of a node may have the same algorithm and window: each gets a counter of its own. */
function withOwnCounters(limits: readonly Limit[]): readonly Limit[] {
  const seen = new Map<string, number>();
  return limits.map((limit) => {
    const place = seen.get(limit.counter) ?? 0;
    seen.set(limit.counter, place + 1);
    return place === 0 ? limit : { ...limit, counter: `${limit.counter}#${place}` };
  });
}

function buildReplaces(block: Block<'rate_limit'>, problems: Problem[]): readonly string[] {
  const { name: own = '', replaces = [] } = block.values;
  return replaces.flatMap(({ values: { name = '' }, wrong, place }) => {
    if (name !== '' && name !== own) return [name];
    if (wrong.has('name')) return [];
    const message =
      name === '' ? 'should not have an empty replaces entry' : 'replaces should not contain name of same descriptor';
    report(problems, place('name'), `${message}: wanted the name of another limit, got '${name}'`);
    return [];
  });
}
