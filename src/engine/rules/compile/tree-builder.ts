import type { SiteSplit } from '../../holds/claim.ts';
import { LevelBuilder, MAX_PATTERN_KEYS } from '../match/level-builder.ts';
import { isFixed } from '../match/matchers.ts';
import { type Domain, type Level, listRules, type Naming, type Node, type Rule, type RuleTree } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { childBlocks, compositeName, type NodeHead, nodeId } from '../read/node-source.ts';
import type { MayBeOverlaid } from '../read/overlaid.ts';
import { checkedBefore, type Place, type Problems, shown } from '../read/problem.ts';
import type { WrittenDomain } from './by-domain.ts';
import { KeyOrderBuilder } from './key-order.ts';
import { type Above, buildNodeRule, childContext, nodeTraits, topContext } from './node-rule.ts';
import { finish, type Steps } from './steps.ts';

/** The nodes of one level, in the order of the file. The children of a node must be read before the next node. */
export interface NodeSource {
  /** The next node, and its children, if any; undefined after the last. */
  next(): { readonly written: WrittenNode; readonly below: NodeSource | undefined } | undefined;
}

export interface WrittenNode {
  readonly head: NodeHead;
  /** May be a getter that parses it. */
  readonly block: Block<'node'>;
  /** Where it can be read again; takes less memory than the node. */
  readonly from: { read(): Block<'node'> };
}

interface DomainSource extends MayBeOverlaid {
  readonly name: string;
  readonly spend: Domain['spend'];
  readonly nodes: NodeSource;
}

/** Builds the trees of domains and all of their rules. Problems go to `problems`; the tree is unusable if there are any. */
export function compile(
  domains: ReadonlyMap<string, WrittenDomain>,
  split: SiteSplit | undefined,
  problems: Problems,
): RuleTree {
  const built = Array.from(domains, ([name, { nodes, spend, overlaid }]) => {
    const steps = buildDomain({ name, spend, overlaid, nodes: readBlocks(nodes) }, split, problems);
    return [name, finish(steps)] as const;
  });
  const byName = new Map(built);
  const rules = [...listRules(byName)];
  checkPaths(domains, rules, problems);
  return { domains: byName, rules };
}

/** Maximum total length of rule paths; long keys above many rules would make `/rlconfig` larger than the memory. */
export const MAX_PATH_CHARACTERS = 64 * 1024 * 1024;

export function countPathCharacters(rules: Iterable<Rule>): number {
  let characters = 0;
  for (const { path } of rules) characters += path.length;
  return characters;
}

function checkPaths(domains: ReadonlyMap<string, WrittenDomain>, rules: readonly Rule[], problems: Problems): void {
  const characters = countPathCharacters(rules);
  if (characters <= MAX_PATH_CHARACTERS) return;
  const [first] = domains.values();
  const message = `the paths of all rules together (domains, keys and values down to each rule) may have at most ${MAX_PATH_CHARACTERS} characters, got ${characters}`;
  if (first) problems.error(first.place, message);
}

function readBlocks(blocks: readonly Block<'node'>[]): NodeSource {
  const remaining = blocks.values();
  return {
    next() {
      const { value: block } = remaining.next();
      if (!block) return undefined;
      const below = childBlocks(block);
      const written: WrittenNode = { head: block.values, block, from: { read: () => block } };
      return { written, below: below.length > 0 ? readBlocks(below) : undefined };
    },
  };
}

/**
 * Builds the tree of a domain. Of rules that were checked before, each is built when it is first needed, unless there
 * are few: building all of them takes several times as long as the rest, and would delay requests for rules that none of
 * them matches.
 *
 * @param problems  of rules that were not checked before, all of which are built
 */
export function* buildDomain(
  { name, spend, overlaid, nodes }: DomainSource,
  split: SiteSplit | undefined,
  problems: Problems = checkedBefore,
): Steps<Domain> {
  const above = topContext(name, split, problems);
  const { idsOfDomain, requirements } = above;
  const count: Count = { rules: 0, reorders: false };
  const root = yield* buildLevel(nodes, above, count);
  return {
    name,
    spend,
    root,
    ruleCount: count.rules,
    ...(idsOfDomain.size > 0 && { ids: [...idsOfDomain.values()] }),
    ...(requirements.length > 0 && { requirements }),
    ...(count.reorders && { reorders: true }),
    ...(overlaid && { overlaid }),
  };
}

/** What was found in the levels of a domain so far. */
interface Count {
  rules: number;
  /** Whether some level matches entries in any order. */
  reorders: boolean;
}

/** The cost of building a rule, relative to that of adding a node. */
const RULE_WORK = 4;
/** The first rules of a domain, which are built with the tree: they take about a millisecond. */
const MADE_RULES = 100;

/** @param order  of the keys of a level above that matches entries in any order, and of those below it */
function* buildLevel(nodes: NodeSource, above: Above, count: Count, order?: KeyOrderBuilder): Steps<Level> {
  const isCheck = above.problems !== checkedBefore;
  const level = new LevelBuilder();
  const places = new Map<string, Place>();
  let first: Block<'node'> | undefined;
  let own: KeyOrderBuilder | undefined;
  for (let sourced = nodes.next(); sourced; sourced = nodes.next()) {
    const { written, below } = sourced;
    const { head } = written;
    if (head.anyOrder && !order) own ??= new KeyOrderBuilder();
    const keys = order ?? (head.anyOrder ? own : undefined);
    keys?.add(head.key ?? '', order && above.keys.at(-1));
    const isPlaced = !isCheck || checkHead(written.block, { level, places }, above);
    if (isCheck && isPlaced) for (const id of idsOf(head)) places.set(id, places.get(id) ?? written.block.place());
    first ??= isCheck ? written.block : undefined;
    if (head.required) above.requirements.push(head.required);
    // the domain needs all ids from the start, even if their rules are not built yet
    const isContext = isCheck || below || head.not_counted !== undefined;
    const here = isContext ? childContext(written.block, above) : undefined;
    const node = new LazyNode(written, above, here);
    if (isPlaced) level.add(head, node);
    if (node.hasRule && head.not_counted !== 'commit') count.rules++;
    yield 1;
    // sites search all rules for the limits that they share
    if ((isCheck || above.split || count.rules <= MADE_RULES) && node.hasRule) {
      node.make(written.block);
      yield RULE_WORK;
    }
    if (isCheck) checkRule(written.block, node.rule, above.problems);
    if (below && here) node.children = yield* buildLevel(below, { ...here, node }, count, keys);
  }
  if (own) {
    const built = own.build();
    count.reorders = true;
    if ('order' in built) level.order = built.order;
    else if (first) reportConflict(built.conflict, first, above.problems);
  }
  return yield* first && hasTooManyPatterns(level, first, above.problems) ? new LevelBuilder().build() : level.build();
}

function reportConflict([one, other]: readonly [string, string], first: Block<'node'>, problems: Problems): void {
  const message = `match: any_order requires one order of the keys in the rules below, got '${shown(one)}' above '${shown(other)}' and below it`;
  problems.error(first.place(), message);
}

function hasTooManyPatterns({ patternKeys }: LevelBuilder, first: Block<'node'>, problems: Problems): boolean {
  if (patternKeys <= MAX_PATTERN_KEYS) return false;
  const message = `at most ${MAX_PATTERN_KEYS} keys of one level may have a '*', got ${patternKeys}: put the '*' into values`;
  problems.error(first.place(), message);
  return true;
}

/** The nodes of a level so far, and where each is written. */
interface Siblings {
  readonly level: LevelBuilder;
  /** By `idsOf`. */
  readonly places: ReadonlyMap<string, Place>;
}

/** Texts that identify a node among its siblings: one for each block of addresses. */
const idsOf = ({ key = '', value = '', addresses = [value] }: NodeHead): readonly string[] =>
  addresses.map((one) => nodeId({ key, value: one }));

/** Checks what places a node among those before it. @returns  whether it has a place */
function checkHead(block: Block<'node'>, { level, places }: Siblings, { path, orderedUpTo, problems }: Above): boolean {
  const { key = '', value = '', addresses = [value], required }: NodeHead = block.values;
  const isValid = key !== '' && !(['key', 'value', 'addresses'] as const).some((one) => block.invalid.has(one));
  const duplicate = isValid ? addresses.find((one) => places.has(nodeId({ key, value: one }))) : undefined;
  if (key === '' && !block.invalid.has('key')) {
    problems.error(block.place('key'), 'descriptor has empty key: expected a name such as user, got nothing');
  } else if (duplicate !== undefined) {
    const name = compositeName({ key, value: duplicate });
    const { file, line } = places.get(nodeId({ key, value: duplicate })) ?? {};
    const where = file === block.place().file ? `line ${line}` : `${file}:${line}`;
    const message = `duplicate descriptor composite key '${shown(path)}.${shown(name)}'; ${where} has it already: move the limits and descriptors of this node there`;
    problems.error(block.place('key'), message);
  }
  if (required && level.required)
    problems.error(block.place(), 'require must be given once for all files of a domain, got a second one');
  if ((orderedUpTo !== undefined || (block.values as NodeHead).anyOrder) && !isFixed(key))
    problems.error(block.place('key'), `match: any_order requires keys without '*' below it, got '${shown(key)}'`);
  checkAddresses(block, problems);
  return value !== '' || isValid;
}

function checkAddresses({ values, place }: Block<'node'>, problems: Problems): void {
  const { key = '', value = '', addresses, not_counted: notCounted } = values;
  if (!addresses) return;
  if (value !== '') problems.error(place('addresses'), 'addresses cannot be used with value: remove one of them');
  if (!isFixed(key)) problems.error(place('addresses'), `addresses requires a key without '*', got '${key}'`);
  if (notCounted !== undefined)
    problems.error(place('addresses'), 'addresses cannot be used with not_counted: remove one of them');
}

function checkRule(block: Block<'node'>, rule: Rule | undefined, problems: Problems): void {
  const composite = compositeName(block.values);
  const { share_threshold: shares, addresses } = block.values;
  if (shares && !addresses && isFixed(composite) && !block.invalid.has('key') && !block.invalid.has('value')) {
    const message = `share_threshold can only be used with wildcard values (containing '*'), but found key '${composite}'`;
    problems.error(block.place('share_threshold'), message);
  }
  const { response, rate_limit: only, rate_limits: several, share, blocked_by: blocks, not_counted } = block.values;
  if (response && (rule?.unlimited || not_counted === 'commit' || !(only || several || share || blocks)))
    problems.error(block.place('response'), 'response goes with a limit of the same node that can refuse, got none');
}

/** A node whose rule is built when it is first needed. */
class LazyNode implements Node {
  readonly composite: string;
  readonly naming: Naming;
  readonly sharedValue: string | undefined;
  readonly countsAddresses: true | undefined;
  readonly hasRule: boolean;
  children: Level | undefined = undefined;
  #rule: Rule | undefined = undefined;
  /** Source of the rule; undefined if there is none, or the rule has been built. */
  #source: RuleSource | undefined;

  constructor({ head, from }: WrittenNode, above: Above, here: Above | undefined) {
    const { composite, naming, sharedValue, countsAddresses } = nodeTraits(head);
    this.composite = composite;
    this.naming = naming;
    this.sharedValue = sharedValue;
    this.countsAddresses = countsAddresses;
    const { not_counted: notCounted, rate_limit: only, rate_limits: several, share, blocked_by: blocks } = head;
    this.hasRule = notCounted === 'commit' || [only, several, share, blocks].some((key) => key !== undefined);
    if (this.hasRule) this.#source = { from, above, here };
  }

  get rule(): Rule | undefined {
    if (this.#source) this.make(this.#source.from.read());
    return this.#rule;
  }

  /** Builds the rule from its block, unless it has been built. */
  make(block: Block<'node'>): void {
    if (!this.#source) return;
    const { above, here = childContext(block, above) } = this.#source;
    this.#rule = buildNodeRule(block, { above, here });
    this.#source = undefined;
  }
}

interface RuleSource {
  readonly from: WrittenNode['from'];
  readonly above: Above;
  /** The context of the node's children, if it has been created. */
  readonly here: Above | undefined;
}
