import { SpaceSaving } from '../sketches/space-saving.ts';
import { topNameOfText } from '../sketches/top-name.ts';
import { KeyArrivals } from './key-arrivals.ts';

/** The number of keys of a rule that are followed because of their hits. */
const HEAVY_KEYS = 64;

/** The most keys that are kept; then all keys that are no longer heavy are dropped together. */
export const MAX_HEAVY_KEYS = 2 * HEAVY_KEYS;

/**
 * The keys with the most hits, which a sample of keys may miss: every key with more than 1/64 of the hits is included.
 * A key that becomes heavy late is only followed from then on.
 */
export class HeavyKeys {
  readonly #counts = new SpaceSaving();
  readonly #followed = new Map<string, KeyArrivals>();

  /** @param known  all keys so far */
  constructor(known: ReadonlyMap<string, KeyArrivals>) {
    const heaviest = [...known].sort(([, one], [, other]) => other.hits - one.hits).slice(0, HEAVY_KEYS);
    for (const [key, arrivals] of heaviest) {
      this.#counts.addNew(topNameOfText(key), arrivals.hits, true);
      this.#followed.set(key, arrivals);
    }
  }

  get followed(): ReadonlyMap<string, KeyArrivals> {
    return this.#followed;
  }

  /** @param sampled  the key's arrivals if it is in the sample @returns its arrivals; undefined: it is not heavy */
  add(key: string, hits: number, sampled: KeyArrivals | undefined): KeyArrivals | undefined {
    const name = topNameOfText(key);
    if (!this.#counts.addToKnown(name, hits)) {
      this.#counts.addNew(name, hits, this.#counts.size < HEAVY_KEYS);
      return undefined; // most keys end here
    }
    const known = this.#followed.get(key);
    if (known) return known;
    if (this.#followed.size >= MAX_HEAVY_KEYS) this.#forget();
    const followed = sampled ?? new KeyArrivals();
    this.#followed.set(key, followed);
    return followed;
  }

  #forget(): void {
    const heavy = new Set(Array.from(this.#counts.entries(), ({ key }) => key));
    for (const key of this.#followed.keys()) if (!heavy.has(key)) this.#followed.delete(key);
  }
}
