import { staticTable } from '../../src/h2/http2/hpack/static-table.ts';

export type NameAndValue = readonly [name: string, value: string];

/**
 * Representations of a field that is in no table: the bits of the integer's prefix, and the pattern before them (RFC
 * 7541, 6.2).
 */
export const literals = { indexing: [6, 0x40], 'without indexing': [4, 0x00], 'never indexed': [4, 0x10] } as const;

const ENTRY_OVERHEAD = 32;

/** An HPACK encoder that uses the requested representations, with raw strings. */
export class HpackEncoder {
  #table: NameAndValue[] = [];
  #limit = 4_096;

  /** Announces a new size of the dynamic table. */
  resize(limit: number): Buffer {
    this.#limit = limit;
    this.#evict();
    return integer(limit, 5, 0x20);
  }

  /**
   * Encodes a field as an index if a table has it, else as a literal, with an indexed name if possible and requested.
   */
  field([name, value]: NameAndValue, literal: keyof typeof literals, byIndex: boolean): Buffer {
    const entries = [...staticTable.map((entry): NameAndValue => [entry.name, entry.value]), ...this.#table];
    const whole = entries.findIndex((entry) => entry[0] === name && entry[1] === value) + 1;
    if (byIndex && whole > 0) return integer(whole, 7, 0x80);
    const named = byIndex ? entries.findLastIndex((entry) => entry[0] === name) + 1 : 0;
    const [prefixBits, pattern] = literals[literal];
    const head = integer(named, prefixBits, pattern);
    if (literal === 'indexing') {
      this.#table.unshift([name, value]);
      this.#evict();
    }
    return Buffer.concat([head, ...(named > 0 ? [] : [text(name)]), text(value)]);
  }

  /** The lowest index that no table has. */
  beyond(): Buffer {
    return integer(staticTable.length + this.#table.length + 1, 7, 0x80);
  }

  #evict(): void {
    const size = () => this.#table.reduce((sum, entry) => sum + entry[0].length + entry[1].length + ENTRY_OVERHEAD, 0);
    while (size() > this.#limit) this.#table.pop();
  }
}

/** Encodes each character as one octet. */
const text = (octets: string): Buffer => Buffer.concat([integer(octets.length, 7, 0), Buffer.from(octets, 'latin1')]);

function integer(value: number, prefixBits: number, pattern: number): Buffer {
  const largest = 2 ** prefixBits - 1;
  if (value < largest) return Buffer.of(pattern + value);
  const octets = [pattern + largest];
  let rest = value - largest;
  while (rest >= 128) {
    octets.push(128 + (rest % 128));
    rest = Math.floor(rest / 128);
  }
  return Buffer.of(...octets, rest);
}
