import { SpaceSaving } from '../admin/space-saving.ts';
import { topNameOfText } from '../admin/top-name.ts';
import { KeyArrivals } from './key-arrivals.ts';

/** Keys of a rule that are followed for their hits. */
const HEAVY_KEYS = 64;

/** Keys that are remembered at most: those that are no longer heavy are forgotten together. */
export const MAX_HEAVY_KEYS = 2 * HEAVY_KEYS;

/**
 * The keys with the most hits, which a sample of keys may lack: each with more than 1/64 of the hits is among them. One
 * that becomes heavy late is followed from then on only.
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

  /** @param sampled  where the sample has the key @returns what follows the key; undefined: it is not heavy */
  add(key: string, hits: number, sampled: KeyArrivals | undefined): KeyArrivals | undefined {
    const name = topNameOfText(key);
    if (!this.#counts.addToKnown(name, hits)) {
      this.#counts.addNew(name, hits, this.#counts.size < HEAVY_KEYS);
      return undefined; // most keys come no further than this
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
