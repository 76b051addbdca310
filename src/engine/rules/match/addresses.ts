import { type AddressBlock, addressBlockText, parseAddressBlock, toNetwork } from '../read/address-block.ts';
import { BlockTable } from './block-table.ts';
import { type Matcher, matcherRank } from './matcher.ts';
import type { AddressNodes, Node, PlacedNode } from './tree.ts';

/** Matches the addresses in a list of blocks, and blocks within these. */
export class Addresses implements Matcher {
  readonly kind = 'addresses';
  readonly rank = matcherRank('addresses');
  readonly text: string;
  readonly name: string;
  readonly blocks: readonly AddressBlock[];
  #table: BlockTable<true> | undefined;

  /** @param texts  of valid blocks, in their shortest form; at least one */
  constructor(texts: readonly string[]) {
    this.text = texts.join(' ');
    this.name = texts[0] ?? '';
    this.blocks = texts.flatMap((text) => parseAddressBlock(text) ?? []);
  }

  matches(text: string): boolean {
    const block = parseAddressBlock(text);
    return block !== undefined && this.#contains(block);
  }

  #contains(block: AddressBlock): boolean {
    this.#table ??= createTable(this.blocks);
    return this.#table.find(block) === true;
  }

  covers(other: Matcher): boolean {
    if (other instanceof Addresses) return other.blocks.every((block) => this.#contains(block));
    return other.kind === 'exact' && this.matches(other.text);
  }

  overlaps(other: Matcher): boolean {
    if (other instanceof Addresses) return this.precedes(other) || other.precedes(this);
    return other.kind !== 'exact' || this.matches(other.text);
  }

  precedes(other: Matcher): boolean {
    return other instanceof Addresses && this.blocks.some((block) => other.#contains(block));
  }

  example(): string {
    const [block] = this.blocks;
    return block ? addressBlockText({ ...block, bits: 8 * block.bytes.length }) : '';
  }
}

function createTable(blocks: readonly AddressBlock[]): BlockTable<true> {
  const table = new BlockTable<true>();
  for (const block of blocks) table.set(block, true);
  return table;
}

/** The value by which an address is counted: its shortest text, so that other spellings have no other counters. */
export function countedAddress(text: string): string {
  if (!text.includes(':') && !text.includes('/')) return text; // an IPv4 address has one text
  const block = parseAddressBlock(text);
  return block ? addressBlockText(toNetwork(block)) : text;
}

/** Relative to adding a node to a level. */
const WORK_OF_BLOCK = 0.25;

/** Builds the nodes of one key that have blocks of addresses. Yields the approximate work of each step. */
export function* addressNodes(all: readonly PlacedNode[]): Generator<number, AddressNodes | undefined> {
  if (all.length === 0) return undefined;
  const table = new BlockTable<Node>();
  for (const { value, node } of all) {
    for (const block of value instanceof Addresses ? value.blocks : []) {
      table.set(block, node);
      yield WORK_OF_BLOCK;
    }
  }
  return {
    all,
    find(value) {
      const block = parseAddressBlock(value);
      return block && table.find(block);
    },
  };
}
