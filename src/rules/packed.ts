import { createHash } from 'node:crypto';
import { checkpoint } from './checkpoint.ts';
import { type DomainNodes, groupByDomain } from './compile.ts';
import { type Field, format, type Shape } from './format.ts';
import type { NodeSource } from './node-source.ts';
import type { MayBeOverlaid, Overlaid } from './overlaid.ts';
import { type Place, Problems } from './problem.ts';
import type { Block } from './read.ts';
import type { Domain } from './tree.ts';

/**
 * Rules that have been checked, as pieces of text: what other threads and processes are sent, since a compiled tree has
 * functions in it. A piece holds a few nodes only, so that it is read in a fraction of a millisecond.
 */
export type PackedRules = readonly PackedDomain[];

export interface PackedDomain extends MayBeOverlaid {
  readonly name: string;
  readonly spend: Domain['spend'];
  /** Of all that decides: the same wherever the rules stand in files. */
  readonly hash: string;
  /** JSON: `PackedPiece`s, parents before their children. */
  readonly pieces: readonly string[];
}

/** Nodes of a piece. */
const PIECE_NODES = 32;

/** A node: its depth below the domain, its values, and its position, for messages. */
type PackedNode = readonly [
  depth: number,
  values: Readonly<Record<string, unknown>>,
  /** Into the piece's list of files. */
  file: number,
  line: number | null,
  /** What of its values an overlay gave it. */
  overlaid?: readonly Overlaid[] | undefined,
];

/** The names of files, and nodes in them. */
type PackedPiece = readonly [files: readonly string[], nodes: readonly PackedNode[]];

const shapes: Readonly<Record<string, Readonly<Record<string, Field>>>> = format;

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
    checkpoint();
    const { descriptors: _, ...own } = block.values;
    hash.update(JSON.stringify([depth, plain('node', own)]));
  }
  return hash.digest('hex');
}

const HASH_CHARACTERS = 12;

/** Equal for equal rules, whatever the names and the layout of their files. */
export function hashOf(packed: PackedRules): string {
  const hash = createHash('sha256');
  for (const domain of packed.map(({ hash: own }) => own).sort()) hash.update(domain);
  return hash.digest('hex').slice(0, HASH_CHARACTERS);
}

/** The domains of two versions that are not the same in both. */
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
  checkpoint();
  const { descriptors = [] } = block.values;
  return [{ depth, block }, ...descriptors.flatMap((child) => listNodes(child, depth + 1))];
}

function packPiece(listed: readonly ListedNode[]): PackedPiece {
  const files = [...new Set(listed.map(({ block }) => block.place().file))];
  const nodes = listed.map(({ depth, block: { values, place, overlaid } }): PackedNode => {
    checkpoint();
    const { descriptors: _, ...own } = values;
    const { file, line = null } = place();
    const packed = [depth, plain('node', own), files.indexOf(file), line] as const;
    return overlaid ? [...packed, overlaid] : packed;
  });
  return [files, nodes];
}

/** The values of a block, and of those in it, without their places. */
function plain(shape: Shape, values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return mapBlocks(shape, values, (inner, block) => plain(inner, (block as Block<Shape>).values)); // as the format says
}

/** The nodes of a domain. A piece is read when its first node is due, so that few nodes are in memory at a time. */
export function unpack({ spend, pieces, overlaid }: PackedDomain): DomainNodes {
  const nodes = readNodes(pieces);
  let due = nodes.next();
  const level = (depth: number): NodeSource => ({
    next() {
      if (due.done || due.value.depth !== depth) return undefined;
      const { block } = due.value;
      due = nodes.next();
      return { block, below: !due.done && due.value.depth > depth ? level(depth + 1) : undefined };
    },
  });
  return { nodes: level(0), spend, overlaid };
}

function* readNodes(pieces: readonly string[]): Generator<ListedNode, undefined> {
  for (const piece of pieces) {
    const [files, packed] = JSON.parse(piece) as PackedPiece; // as `pack` wrote it
    for (const [depth, own, file, line, overlaid] of packed) {
      const place: Place = { file: files[file] ?? '', line: line ?? undefined, path: '' };
      const values = revived('node', own, place);
      yield { depth, block: { values, wrong: NOTHING, place: () => place, overlaid } };
    }
  }
}

const NOTHING: ReadonlySet<PropertyKey> = new Set();

function revived(
  shape: Shape,
  values: Readonly<Record<string, unknown>>,
  place: Place,
): Readonly<Record<string, unknown>> {
  return mapBlocks(shape, values, (inner, block): Block<Shape> => {
    const own = revived(inner, block as Readonly<Record<string, unknown>>, place); // as `plain` made it
    return { values: own, wrong: NOTHING, place: () => place };
  });
}

/** A copy in which each block, alone or in a list, has become something else. */
function mapBlocks(
  shape: Shape,
  values: Readonly<Record<string, unknown>>,
  map: (shape: Shape, block: unknown) => unknown,
): Readonly<Record<string, unknown>> {
  const entries = Object.entries(values).map(([key, value]): [string, unknown] => {
    const field = shapes[shape]?.[key];
    const inner = value === undefined ? undefined : innerShape(field, value);
    if (inner === undefined) return [key, value];
    return [key, Array.isArray(value) ? value.map((block) => map(inner, block)) : map(inner, value)];
  });
  return Object.fromEntries(entries);
}

/** The shape of the blocks that a value is or lists; undefined: it has none. */
function innerShape(field: Field | undefined, value: unknown): Shape | undefined {
  const isBlock = field?.type === 'list' || field?.type === 'block';
  const of = isBlock ? field.of : field?.type === 'text' && typeof value === 'object' ? field.orBlock : undefined;
  return of as Shape | undefined; // the format names only its own blocks
}
