import type { Requirement } from '../read/node-source.ts';
import { MISSING, missingName } from '../read/requirement.ts';

interface SentEntry {
  readonly key: string;
  readonly value: string;
}

interface Sent {
  readonly entries: readonly SentEntry[];
}

/** The keys that requests must carry, with a value, in any of their descriptors: `require`. */
export class RequiredKeys {
  readonly requirement: Requirement;
  /** The entry of the node that counts requests without them. */
  readonly #missing: SentEntry;
  readonly #bits = new Map<string, number>();
  readonly #alternatives: readonly number[];

  constructor(requirement: Requirement) {
    this.requirement = requirement;
    this.#missing = { key: MISSING, value: missingName(requirement) };
    for (const key of requirement.keys.flat()) if (!this.#bits.has(key)) this.#bits.set(key, 1 << this.#bits.size);
    this.#alternatives = requirement.keys.map((all) => all.reduce((bits, key) => bits | (this.#bits.get(key) ?? 0), 0));
  }

  areIn(descriptors: readonly Sent[]): boolean {
    let carried = 0;
    for (const { entries } of descriptors)
      for (const { key, value } of entries) {
        const bit = this.#bits.get(key);
        if (bit === undefined || value === '') continue;
        carried |= bit;
        for (const bits of this.#alternatives) if ((carried & bits) === bits) return true;
      }
    return false;
  }

  /** Whether an entry leads to the node that counts requests without the keys. */
  counts({ key, value }: SentEntry): boolean {
    return key === this.#missing.key && value === this.#missing.value;
  }

  /**
   * The descriptor that counts a request without the keys.
   *
   * @param above  the entries that lead to the level
   */
  counterEntries(above: readonly SentEntry[], descriptors: readonly Sent[]): readonly SentEntry[] {
    const sentValue = (key: string): string => {
      for (const { entries } of descriptors)
        for (const entry of entries) if (entry.key === key && entry.value !== '') return entry.value;
      return '';
    };
    return [...above, this.#missing, ...this.requirement.per.map((key) => ({ key, value: sentValue(key) }))];
  }
}

/** In words, what a request lacks: `required key 'customer' is missing`. */
export function missingText({ keys }: Pick<Requirement, 'keys'>): string {
  const areSeveral = keys.some(({ length }) => length > 1);
  const names = keys.map((all) => all.map((key) => `'${key}'`).join(' and ')).join(' or ');
  return areSeveral ? `required keys ${names} are missing` : `required key ${names} is missing`;
}
