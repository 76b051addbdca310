import { type DomainParts, groupByDomain, rulePlaceOf } from './compile.ts';
import { type Field, format, type Shape } from './format.ts';
import type { Place } from './problem.ts';
import type { Block } from './read.ts';
import type { Steps } from './steps.ts';
import type { Domain } from './tree.ts';

/**
 * Rules that have been checked, as pieces of text: what other threads and processes are sent, since a compiled tree has functions in it. A piece
 * holds a few nodes only, so that it is read in a fraction of a millisecond.
 */
export type PackedRules = readonly PackedDomain[];

export interface PackedDomain {
  readonly name: string;
  readonly spend: Domain['spend'];
  /** JSON: lists of nodes, each behind its depth, parents before their children. */
  readonly pieces: readonly string[];
}

/** Nodes of a piece. */
const PIECE_NODES = 32;

/** A node with the place of its rule. */
type PackedNode = readonly [
  depth: number,
  values: Readonly<Record<string, unknown>>,
  line: number | null,
  file: string,
];

const shapes: Readonly<Record<string, Readonly<Record<string, Field>>>> = format;

/** @param blocks  without problems */
export function pack(blocks: readonly Block<'file'>[], mergeDomains: boolean): PackedRules {
  return Array.from(groupByDomain(blocks, mergeDomains, []), ([name, { nodes, spend }]) => {
    const packed = nodes.flatMap((node) => packNode(node, 0));
    const count = Math.ceil(packed.length / PIECE_NODES);
    const pieces = Array.from({ length: count }, (_, at) =>
      JSON.stringify(packed.slice(at * PIECE_NODES, (at + 1) * PIECE_NODES)),
    );
    return { name, spend, pieces };
  });
}

function packNode(block: Block<'node'>, depth: number): readonly PackedNode[] {
  const { descriptors = [], ...own } = block.values;
  const { file, line = null } = rulePlaceOf(block);
  return [[depth, plain('node', own), line, file], ...descriptors.flatMap((child) => packNode(child, depth + 1))];
}

/** The values of a block, and of those in it, without their places. */
function plain(shape: Shape, values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return mapBlocks(shape, values, (inner, block) => plain(inner, (block as Block<Shape>).values)); // as the format says
}

/** The nodes of a domain, a piece a step. */
export function* unpack({ spend, pieces }: PackedDomain): Steps<DomainParts> {
  const nodes: Block<'node'>[] = [];
  const files = new Map<string, string>(); // one text for all nodes of a file
  const parents: { descriptors?: Block<'node'>[] }[] = [];
  for (const piece of pieces) {
    const packed = JSON.parse(piece) as readonly PackedNode[]; // as `pack` wrote it
    for (const [depth, own, line, file] of packed) {
      const place: Place = { file: files.get(file) ?? file, line: line ?? undefined, path: '' };
      files.set(place.file, place.file);
      const values: { descriptors?: Block<'node'>[] } = { ...revived('node', own, place) };
      const parent = parents[depth - 1];
      if (parent) parent.descriptors ??= [];
      const siblings = parent?.descriptors ?? nodes;
      siblings.push({ values, wrong: NOTHING, place: () => place });
      parents[depth] = values;
    }
    yield packed.length / 4; // takes about a quarter of the time of compiling them
  }
  return { nodes, spend };
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
    if (value === undefined || (field?.type !== 'list' && field?.type !== 'block')) return [key, value];
    const inner = field.of as Shape; // the format names only its own blocks
    return [key, Array.isArray(value) ? value.map((block) => map(inner, block)) : map(inner, value)];
  });
  return Object.fromEntries(entries);
}
