import { createHash } from 'node:crypto';
import type { Domain } from '../match/tree.ts';
import { type Block, createBlock, mapBlocks, reviveBlock } from '../read/block.ts';
import type { Shape } from '../read/format.ts';
import { childBlocks, type NodeHead } from '../read/node-source.ts';
import type { MayBeOverlaid, Overlaid } from '../read/overlaid.ts';
import type { Place } from '../read/problem.ts';
import type { WrittenDomain } from './by-domain.ts';
import type { NodeSource, WrittenNode } from './tree-builder.ts';

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

/** @param domains  without problems */
export function pack(domains: ReadonlyMap<string, WrittenDomain>): PackedRules {
  return Array.from(domains, ([name, { nodes, spend, overlaid }]) => {
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
    const { descriptors = [], ...own } = values;
    const { file, line = null } = place();
    const reserving = descriptors.flatMap(onlyReserve);
    const kept = reserving.length > 0 ? { ...own, descriptors: reserving } : own;
    const packed = [depth, plain('node', kept), files.indexOf(file), line] as const;
    return overlaid ? [...packed, overlaid] : packed;
  });
  return [files, nodes];
}

/** Of a child, what its parent's rule needs: its reservation. */
const onlyReserve = ({ values: { key, share }, place }: Block<'node'>): readonly Block<'node'>[] =>
  share?.values.reserve === undefined
    ? []
    : [createBlock<'node'>({ ...(key !== undefined && { key }), share }, place())];

/** The values of a block and of the blocks in it, without places. */
function plain(shape: Shape, values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return mapBlocks(shape, values, (inner, block) => plain(inner, (block as Block<Shape>).values)); // as the format says
}

/** The nodes of a domain. Each piece is parsed when its first node is read, so that few nodes are in memory at once. */
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

function* readNodes(pieces: readonly string[]): Generator<WrittenNode & { readonly depth: number }, undefined> {
  for (const piece of pieces) {
    const [files, packed] = readPiece(piece);
    for (const [at, node] of packed.entries())
      yield {
        depth: node[0],
        head: node[1] as NodeHead, // checked against the format
        get block() {
          return restoreBlock(node, files);
        },
        from: new NodePlace(piece, at),
      };
  }
}

const readPiece = (piece: string): PackedPiece => JSON.parse(piece); // written by `pack`

/** A piece, and the index of a node in it, from 0. */
class NodePlace {
  readonly #piece: string;
  readonly #at: number;

  constructor(piece: string, at: number) {
    this.#piece = piece;
    this.#at = at;
  }

  read(): Block<'node'> {
    const [files, nodes] = readPiece(this.#piece);
    const node = nodes[this.#at];
    if (!node) throw new RangeError(`node ${this.#at} of a piece with ${nodes.length}`);
    return restoreBlock(node, files);
  }
}

function restoreBlock([, own, file, line, overlaid]: PackedNode, files: readonly string[]): Block<'node'> {
  const place: Place = { file: files[file] ?? '', line: line ?? undefined, path: '' };
  return { ...reviveBlock('node', own, place), overlaid };
}
