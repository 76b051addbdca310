import type { SiteSplit } from '../../algorithms/site-share.ts';
import type { Domain, Level, Naming, Node, Rule } from '../match/tree.ts';
import type { NodeSource } from '../read/node-source.ts';
import { Problems } from '../read/problem.ts';
import type { Block } from '../read/read.ts';
import { type Above, domainOf, hereOf, nodeTraits, ruleOf, topOf } from './compile.ts';
import { LevelBuilder } from './level-builder.ts';
import { blockAt, type NodePlace, type PackedDomain, type UnpackedNode, unpack } from './packed.ts';
import type { Steps } from './steps.ts';

/**
 * Builds the tree of a domain whose rules have been checked. If there are many rules, each is built when it is first
 * needed: building all of them takes several times as long as the rest, and would delay requests for rules that none of
 * them matches.
 */
export function* buildChecked(packed: PackedDomain, split: SiteSplit | undefined): Steps<Domain> {
  const above = topOf(packed.name, split);
  const count = { rules: 0 };
  const root = yield* buildLevel(unpack(packed), above, count);
  return domainOf(above, packed, root, count.rules);
}

/** The cost of building a rule, relative to that of adding a node. */
export const RULE_WORK = 4;
/** The first rules of a domain, which are built with the tree: they take about a millisecond. */
const MADE_RULES = 100;

function* buildLevel(nodes: NodeSource<UnpackedNode>, above: Above, count: { rules: number }): Steps<Level> {
  const level = new LevelBuilder();
  for (let sourced = nodes.next(); sourced; sourced = nodes.next()) {
    const { written, below } = sourced;
    const { key = '', value = '', not_counted: notCounted } = written.head;
    // the domain needs all ids from the start, even if their rules are not built yet
    const here = below || notCounted !== undefined ? hereOf(written.block, above, new Problems()) : undefined;
    const node = new LazyNode(written, above, here);
    level.add(key, value, node);
    if (node.hasRule && notCounted !== 'commit') count.rules++;
    yield 1;
    // sites search all rules for the limits that they share
    if ((above.split || count.rules <= MADE_RULES) && node.hasRule) {
      node.make(written.block);
      yield RULE_WORK;
    }
    if (below && here) node.children = yield* buildLevel(below, { ...here, node }, count);
  }
  return yield* level.build();
}

class LazyNode implements Node {
  readonly composite: string;
  readonly naming: Naming;
  readonly sharedValue: string | undefined;
  readonly hasRule: boolean;
  children: Level | undefined = undefined;
  #rule: Rule | undefined = undefined;
  /** The source of the rule; undefined: there is none, or the rule has been built. */
  #source: RuleSource | undefined;

  constructor({ head, from }: UnpackedNode, above: Above, here: Above | undefined) {
    const { composite, naming, sharedValue } = nodeTraits(head);
    this.composite = composite;
    this.naming = naming;
    this.sharedValue = sharedValue;
    const { not_counted: notCounted, rate_limit: only, rate_limits: several = [] } = head;
    this.hasRule = notCounted === 'commit' || only !== undefined || several.length > 0;
    if (this.hasRule) this.#source = { from, above, here };
  }

  get rule(): Rule | undefined {
    if (this.#source) this.make(blockAt(this.#source.from));
    return this.#rule;
  }

  /** Builds the rule from its block, unless it has been built. */
  make(block: Block<'node'>): void {
    if (!this.#source) return;
    const { above, here } = this.#source;
    const problems = new Problems(); // remains empty
    this.#rule = ruleOf(block, { above, here: here ?? hereOf(block, above, problems) }, problems);
    this.#source = undefined;
  }
}

interface RuleSource {
  readonly from: NodePlace;
  readonly above: Above;
  /** Absent: not built yet. */
  readonly here: Above | undefined;
}
