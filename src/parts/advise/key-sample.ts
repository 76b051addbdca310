import type { Entry } from '../../engine/rules/match/match.ts';
import { mixed } from '../../operate/sketches/top-name.ts';
import type { KeyArrivals } from './key-arrivals.ts';

/** A hash of 32 bits, each of which depends on the whole text. @see https://doi.org/10.5281/zenodo.1241418 */
function hashText(seed: number, text: string): number {
  let hash = mixed(seed, text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Whether a key is in a sample of one in 2^level keys, which hold if its hash begins with that number of zero bits. */
export const isSampled = (seed: number, key: string, level: number): boolean =>
  level === 0 || hashText(seed, key) < 2 ** (32 - level);

/**
 * A sample of one key in 2^level, chosen by hash and tracked from the first hit. When it is full, half of the keys are
 * dropped. Every key is equally likely to be sampled, whatever its number of hits, so fractions of the sample estimate
 * fractions of all keys. The number of all keys is 2^level times that of the sample, with a standard error of about 1.2
 * / √sample.
 *
 * @see https://doi.org/10.1007/BF02241657 Flajolet, On adaptive sampling
 */
export class KeySample {
  readonly keys = new Map<string, KeyArrivals>();
  readonly #seed: number;
  #level = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  get level(): number {
    return this.#level;
  }

  /** Number of keys that each key of the sample represents. */
  get weight(): number {
    return 2 ** this.#level;
  }

  accepts(key: string): boolean {
    return isSampled(this.#seed, key, this.#level);
  }

  /** @returns the number of keys that were dropped */
  raiseTo(level: number): number {
    if (level <= this.#level) return 0;
    this.#level = level;
    const before = this.keys.size;
    for (const key of this.keys.keys()) if (!this.accepts(key)) this.keys.delete(key);
    return before - this.keys.size;
  }
}

/** Keys of entries that identify a client, not its location or action: `user`, `x-api-key`, `tenant_id`. */
const NAMES_CLIENT =
  /(?:^|[^a-z])(?:user|account|customer|client|tenant|session|device|consumer|subject|sub|login|api[-_]?key|token)(?:[-_]?(?:id|name))?$/i;

interface Described {
  readonly entries: readonly Entry[];
}

/**
 * For each descriptor of a request, a hash of the client that another descriptor names, such as a user behind an
 * address. Undefined if the descriptor itself names a client, or none does.
 */
export function identifyClients(descriptors: readonly Described[], seed: number): readonly (number | undefined)[] {
  let client: Entry | undefined;
  for (const { entries } of descriptors) client ??= entries.find(namesClient);
  if (!client) return [];
  const hash = hashText(seed, client.value);
  return descriptors.map(({ entries }) => (entries.some(namesClient) ? undefined : hash));
}

const namesClient = ({ key }: Entry): boolean => NAMES_CLIENT.test(key);
