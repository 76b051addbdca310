import type { AddressBlock } from '../read/address-block.ts';

const NONE = 0;
const IPV4 = 1;
const IPV6 = 2;

/** Blocks of addresses, each with an item, in two trees of bits: one for IPv4, one for IPv6. */
export class BlockTable<T> {
  /** For each node, those that a 0 and a 1 lead to. */
  readonly #zeros = [NONE, NONE, NONE];
  readonly #ones = [NONE, NONE, NONE];
  readonly #items: (T | undefined)[] = [undefined, undefined, undefined];

  /** Adds a block, or replaces its item. @returns the item before */
  set(block: AddressBlock, item: T): T | undefined {
    let node = familyRoot(block);
    for (let bit = 0; bit < block.bits; bit++) {
      const next = isOne(block, bit) ? this.#ones : this.#zeros;
      if (next[node] === NONE) next[node] = this.#grow();
      node = next[node] ?? NONE;
    }
    const before = this.#items[node];
    this.#items[node] = item;
    return before;
  }

  #grow(): number {
    this.#zeros.push(NONE);
    this.#ones.push(NONE);
    return this.#items.push(undefined) - 1;
  }

  /** The item of the longest block that contains the given one. */
  find(block: AddressBlock): T | undefined {
    let node = familyRoot(block);
    let found = this.#items[node];
    for (let bit = 0; bit < block.bits && node !== NONE; bit++) {
      node = (isOne(block, bit) ? this.#ones : this.#zeros)[node] ?? NONE;
      found = this.#items[node] ?? found;
    }
    return found;
  }

  /** The item of the longest block that contains the given one and is wider. */
  findWider(block: AddressBlock): T | undefined {
    return block.bits === 0 ? undefined : this.find({ bytes: block.bytes, bits: block.bits - 1 });
  }

  /** Whether longer blocks together contain all addresses of a block. */
  isCovered(block: AddressBlock): boolean {
    const node = this.#findNode(block);
    return this.#isWhole(this.#zeros[node]) && this.#isWhole(this.#ones[node]);
  }

  #isWhole(node = NONE): boolean {
    if (node === NONE) return false;
    return this.#items[node] !== undefined || (this.#isWhole(this.#zeros[node]) && this.#isWhole(this.#ones[node]));
  }

  #findNode(block: AddressBlock): number {
    let node = familyRoot(block);
    for (let bit = 0; bit < block.bits; bit++) node = (isOne(block, bit) ? this.#ones : this.#zeros)[node] ?? NONE;
    return node;
  }
}

const familyRoot = ({ bytes }: AddressBlock): number => (bytes.length === 4 ? IPV4 : IPV6);

const isOne = ({ bytes }: AddressBlock, bit: number): boolean =>
  (((bytes[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
