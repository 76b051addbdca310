import { createHash } from 'node:crypto';
import type { SiteSplit } from '../../holds/site-share.ts';
import { LevelBuilder } from '../match/level-builder.ts';
import type { Domain, Level, Naming, Node, Rule } from '../match/tree.ts';
import { type Block, mapBlocks, reviveBlock } from '../read/block.ts';
import type { Shape } from '../read/format.ts';
import { childBlocks, type NodeHead } from '../read/node-source.ts';
import type { MayBeOverlaid, Overlaid } from '../read/overlaid.ts';
import { type Place, Problems } from '../read/problem.ts';
import {
  type Above,
  buildNodeRule,
  childContext,
  createDomain,
  groupByDomain,
  nodeTraits,
  topContext,
} from './compile.ts';
import type { Steps } from './steps.ts';

/**
 * Checked rules as pieces of text, in which they are sent to other processes: a compiled tree contains functions. A
 * piece holds only a few nodes, so that parsing it takes a fraction of a millisecond.
 */
export type PackedRules = readonly PackedDomain[];

export interface PackedDomain extends MayBeOverlaid {
  readonly name: string;
  readonly spend: Domain['spend'];
  /** Of all that affects decisions; independent of the places in files. */
  readonly hash: string;
  /** JSON: `PackedPiece`s, parents before their children. */
  readonly pieces: readonly string[];
}

/** The nodes in a piece. */
const PIECE_NODES = 32;

/** A node: its depth below the domain, its values, and its position, for messages. */
type PackedNode = readonly [
  depth: number,
  values: Readonly<Record<string, unknown>>,
  /** Its index in the piece's list of files. */
  file: number,
  line: number | null,
  /** The values that an overlay set. */
  overlaid?: readonly Overlaid[] | undefined,
];

/** The names of files, and nodes from them. */
type PackedPiece = readonly [files: readonly string[], nodes: readonly PackedNode[]];

/** @param blocks  without problems */
export function pack(blocks: readonly Block<'file'>[], mergeDomains: boolean): PackedRules {
  return Array.from(groupByDomain(blocks, mergeDomains, new Problems()), ([name, { nodes, spend, overlaid }]) => {
    const listed = nodes.flatMap((node) => listNodes(node, 0));
    const count = Math.ceil(listed.length / PIECE_NODES);
    const pieces = Array.from({ length: count }, (_, at) =>
      JSON.stringify(packPiece(listed.slice(at * PIECE_NODES, (at + 1) * PIECE_NODES))),
    );
    return { name, spend, hash: hashOfDomain(name, spend, listed), pieces, ...(overlaid && { overlaid }) };
  });
}

function hashOfDomain(name: string, spend: Domain['spend'], listed: readonly ListedNode[]): string {
  const hash = createHash('sha256').update(JSON.stringify([name, spend]));
  for (const { depth, block } of listed) {
    const { descriptors: _, ...own } = block.values;
    hash.update(JSON.stringify([depth, plain('node', own)]));
  }
  return hash.digest('hex');
}

const HASH_CHARACTERS = 12;

/** Equal for equal rules, independent of the names and the layout of their files. */
export function hashRules(packed: PackedRules): string {
  const hash = createHash('sha256');
  for (const domain of packed.map(({ hash: own }) => own).sort()) hash.update(domain);
  return hash.digest('hex').slice(0, HASH_CHARACTERS);
}

/** The domains that differ between two versions. */
export function differing(before: PackedRules, after: PackedRules) {
  const without = (packed: PackedRules, others: PackedRules): PackedRules => {
    const hashes = new Map(others.map(({ name, hash }) => [name, hash]));
    return packed.filter(({ name, hash }) => hashes.get(name) !== hash);
  };
  return { before: without(before, after), after: without(after, before) };
}

interface ListedNode {
  readonly depth: number;
  readonly block: Block<'node'>;
}

function listNodes(block: Block<'node'>, depth: number): readonly ListedNode[] {
  return [{ depth, block }, ...childBlocks(block).flatMap((child) => listNodes(child, depth + 1))];
}

function packPiece(listed: readonly ListedNode[]): PackedPiece {
  const files = [...new Set(listed.map(({ block }) => block.place().file))];
  const nodes = listed.map(({ depth, block: { values, place, overlaid } }): PackedNode => {
    const { descriptors: _, ...own } = values;
    const { file, line = null } = place();
    const packed = [depth, plain('node', own), files.indexOf(file), line] as const;
    return overlaid ? [...packed, overlaid] : packed;
  });
  return [files, nodes];
}

/** The values of a block and of the blocks in it, without places. */
function plain(shape: Shape, values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return mapBlocks(shape, values, (inner, block) => plain(inner, (block as Block<Shape>).values)); // as the format says
}

/** The nodes of one level, in the order of the file. The children of a node must be read before the next node. */
export interface NodeSource {
  /** The next node, and its children, if any; undefined after the last. */
  next(): { readonly written: UnpackedNode; readonly below: NodeSource | undefined } | undefined;
}

/**
 * The nodes of a domain. Each piece is parsed when its first node is read, so that few nodes are in memory at a time.
 */
export function unpack({ pieces }: PackedDomain): NodeSource {
  const nodes = readNodes(pieces);
  let due = nodes.next();
  const level = (depth: number): NodeSource => ({
    next() {
      if (due.done || due.value.depth !== depth) return undefined;
      const written = due.value;
      due = nodes.next();
      return { written, below: !due.done && due.value.depth > depth ? level(depth + 1) : undefined };
    },
  });
  return level(0);
}

function* readNodes(pieces: readonly string[]): Generator<UnpackedNode, undefined> {
  for (const piece of pieces) {
    const [files, packed] = readPiece(piece);
    for (const [at, node] of packed.entries())
      yield {
        depth: node[0],
        head: node[1] as NodeHead, // checked against the format
        get block() {
          return restoreBlock(node, files);
        },
        from: { piece, at },
      };
  }
}

/** A node of a piece. */
interface UnpackedNode {
  readonly depth: number;
  readonly head: NodeHead;
  /** Built on demand. */
  readonly block: Block<'node'>;
  /** Allows the node to be read again; takes less memory than the node. */
  readonly from: NodePlace;
}

/** A piece, and the index of a node in it, from 0. */
interface NodePlace {
  readonly piece: string;
  readonly at: number;
}

const readPiece = (piece: string): PackedPiece => JSON.parse(piece); // written by `pack`

/** Reads a node again. */
function blockAt({ piece, at }: NodePlace): Block<'node'> {
  const [files, nodes] = readPiece(piece);
  const node = nodes[at];
  if (!node) throw new RangeError(`node ${at} of a piece with ${nodes.length}`);
  return restoreBlock(node, files);
}

function restoreBlock([, own, file, line, overlaid]: PackedNode, files: readonly string[]): Block<'node'> {
  const place: Place = { file: files[file] ?? '', line: line ?? undefined, path: '' };
  return { ...reviveBlock('node', own, place), overlaid };
}

/**
 * Builds the tree of a domain whose rules have been checked. If there are many rules, each is built when it is first
 * needed: building all of them takes several times as long as the rest, and would delay requests for rules that none of
 * them matches.
 */
export function* buildChecked(packed: PackedDomain, split: SiteSplit | undefined): Steps<Domain> {
  const above = topContext(packed.name, split);
  const count = { rules: 0 };
  const root = yield* buildLevel(unpack(packed), above, count);
  return createDomain(above, { ...packed, root, ruleCount: count.rules });
}

/** The cost of building a rule, relative to that of adding a node. */
const RULE_WORK = 4;
/** The first rules of a domain, which are built with the tree: they take about a millisecond. */
const MADE_RULES = 100;

function* buildLevel(nodes: NodeSource, above: Above, count: { rules: number }): Steps<Level> {
  const level = new LevelBuilder();
  for (let sourced = nodes.next(); sourced; sourced = nodes.next()) {
    const { written, below } = sourced;
    const { not_counted: notCounted } = written.head;
    // the domain needs all ids from the start, even if their rules are not built yet
    const here = below || notCounted !== undefined ? childContext(written.block, above, new Problems()) : undefined;
    const node = new LazyNode(written, above, here);
    level.add(written.head, node);
    if (written.head.required) above.requirements.push(written.head.required);
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
  readonly countsAddresses: true | undefined;
  readonly hasRule: boolean;
  children: Level | undefined = undefined;
  #rule: Rule | undefined = undefined;
  /** Source of the rule; undefined if there is none, or the rule has been built. */
  #source: RuleSource | undefined;

  constructor({ head, from }: UnpackedNode, above: Above, here: Above | undefined) {
    const { composite, naming, sharedValue, countsAddresses } = nodeTraits(head);
    this.composite = composite;
    this.naming = naming;
    this.sharedValue = sharedValue;
    this.countsAddresses = countsAddresses;
    const { not_counted: notCounted, rate_limit: only, rate_limits: several = [], share } = head;
    this.hasRule = notCounted === 'commit' || only !== undefined || several.length > 0 || share !== undefined;
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
    this.#rule = buildNodeRule(block, { above, here: here ?? childContext(block, above, problems) }, problems);
    this.#source = undefined;
  }
}

interface RuleSource {
  readonly from: NodePlace;
  readonly above: Above;
  /** The rule; absent until it is built. */
  readonly here: Above | undefined;
}
