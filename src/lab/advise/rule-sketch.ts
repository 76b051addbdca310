import { type KeyAtTime, type KeyBudget, PeakHits } from '../replay/key-figures.ts';
import { SpaceSaving } from '../sketches/space-saving.ts';
import { topNameOfText } from '../sketches/top-name.ts';
import { KeyArrivals } from './key-arrivals.ts';
import { KeySample } from './key-sample.ts';

const DAY_MS = 86_400_000;

/** The number of keys of a rule that are followed because of their hits. */
const HEAVY_KEYS = 64;

/** The most keys that are kept; then all keys that are no longer heavy are dropped together. */
export const MAX_HEAVY_KEYS = 2 * HEAVY_KEYS;

/** Hits of a key under a rule. */
export interface Arrival {
  /** The domain and entries, as in a counter's key. */
  readonly key: string;
  /** At least 1. */
  readonly hits: number;
  readonly timeMs: number;
  /** The limit refused the hits, whether or not the answer was a refusal. */
  readonly isRefused: boolean;
  /** A hash of the client; undefined: the request names no client besides its key. */
  readonly client: number | undefined;
  /** The arrivals come from a sample of one key in 2^level. */
  readonly level: number;
}

interface SketchOptions {
  readonly windowMs: number;
  /** The most keys in the sample. */
  readonly maxKeys: number;
  readonly seed: number;
  /** Shared by all sketches. */
  readonly budget: KeyBudget;
  /** For `PeakHits`; undefined: hits admitted around window boundaries are not followed. */
  readonly admittedKeys: KeyBudget | undefined;
  /** Frees space for another key, in any sketch; false: it could not. */
  readonly makeRoom: () => boolean;
}

/** A key, and a summary of its hits. */
export interface FollowedKey {
  readonly key: string;
  /** The number of keys that it stands for. */
  readonly weight: number;
  readonly arrivals: KeyArrivals;
}

/** The observed traffic of a limit's keys. */
export interface ObservedRule {
  readonly windowMs: number;
  readonly requests: number;
  readonly hits: number;
  readonly refusedHits: number;
  /** An estimate unless every key is followed. */
  readonly keys: number;
  /** One key in this many is followed, in addition to those with the most hits. */
  readonly oneIn: number;
  /** Requests of keys for which there was no space. */
  readonly untracked: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** Days, in UTC, on which there were hits. */
  readonly days: number;
  readonly followed: readonly FollowedKey[];
  readonly windows: HitsHistogram;
  /** The most hits admitted for one key within the length of a window, wherever the interval begins. */
  readonly admitted: (KeyAtTime & { readonly hits: number }) | undefined;
}

/** Sums up the arrivals of one limit in bounded memory. */
export class RuleSketch {
  readonly #options: SketchOptions;
  readonly #sample: KeySample;
  #heavy: HeavyKeys | undefined;
  readonly #windows = new HitsHistogram();
  readonly #admitted: PeakHits | undefined;
  readonly #days = new Set<number>();
  readonly #sums = { requests: 0, hits: 0, refusedHits: 0, untracked: 0 };
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(options: SketchOptions) {
    this.#options = options;
    this.#sample = new KeySample(options.seed);
    if (options.admittedKeys) this.#admitted = new PeakHits(options.windowMs, options.admittedKeys);
  }

  /** The number of keys in the sample. */
  get size(): number {
    return this.#sample.keys.size;
  }

  /** The number of keys that it has charged to the budget. */
  get charged(): number {
    return this.size + (this.#heavy ? MAX_HEAVY_KEYS : 0);
  }

  get isMet(): boolean {
    return this.#sums.requests > 0;
  }

  add(arrival: Arrival): void {
    const { key, hits, timeMs, isRefused, client, level } = arrival;
    if (level > this.#sample.level) this.#raiseTo(level);
    this.#count(arrival);
    if (!isRefused) this.#admitted?.admitted(key, hits, timeMs);
    const sampled = this.#sampled(key);
    const heavy = this.#heavy?.add(key, hits, sampled);
    const arrivals = sampled ?? heavy;
    if (!arrivals) return;
    const ended = arrivals.add(hits, timeMs, this.#options.windowMs);
    if (ended > 0) this.#windows.add(ended, heavy ? 1 : this.#sample.weight);
    if (isRefused) arrivals.refusedHits += hits;
    if (client !== undefined) arrivals.addClient(client);
  }

  /** Drops half of the sample. */
  halve(): void {
    this.#raiseTo(this.#sample.level + 1);
  }

  observed(): ObservedRule | undefined {
    if (!this.isMet) return undefined;
    const followed = [...this.#followed()];
    const windows = this.#windows.copy();
    for (const { arrivals, weight } of followed) if (arrivals.count > 0) windows.add(arrivals.count, weight);
    return {
      ...this.#sums,
      windowMs: this.#options.windowMs,
      keys: followed.reduce((sum, { weight }) => sum + weight, 0),
      oneIn: this.#sample.weight,
      firstMs: this.#firstMs,
      lastMs: this.#lastMs,
      days: this.#days.size,
      followed,
      windows,
      admitted: this.#admitted?.peak,
    };
  }

  *#followed(): Iterable<FollowedKey> {
    const heavy = this.#heavy?.followed;
    for (const [key, arrivals] of this.#sample.keys)
      yield { key, arrivals, weight: heavy?.has(key) ? 1 : this.#sample.weight };
    for (const [key, arrivals] of heavy ?? [])
      if (!this.#sample.keys.has(key) && arrivals.hits > 0) yield { key, arrivals, weight: 1 };
  }

  #count({ hits, timeMs, isRefused, level }: Arrival): void {
    const weight = 2 ** level;
    this.#sums.requests += weight;
    this.#sums.hits += hits * weight;
    if (isRefused) this.#sums.refusedHits += hits * weight;
    if (timeMs < this.#firstMs) this.#firstMs = timeMs;
    if (timeMs > this.#lastMs) this.#lastMs = timeMs;
    this.#days.add(Math.floor(timeMs / DAY_MS));
  }

  #sampled(key: string): KeyArrivals | undefined {
    const known = this.#sample.keys.get(key);
    if (known) return known;
    if (!this.#sample.accepts(key)) return undefined;
    if (this.#sample.keys.size >= this.#options.maxKeys) this.halve();
    if (this.#options.budget.left <= 0 && !this.#options.makeRoom()) {
      this.#sums.untracked++;
      return undefined;
    }
    if (!this.#sample.accepts(key)) return undefined;
    this.#options.budget.left--;
    const arrivals = new KeyArrivals();
    this.#sample.keys.set(key, arrivals);
    return arrivals;
  }

  #raiseTo(level: number): void {
    const { budget } = this.#options;
    if (!this.#heavy) {
      this.#heavy = new HeavyKeys(this.#sample.keys);
      budget.left -= MAX_HEAVY_KEYS;
    }
    budget.left += this.#sample.raiseTo(level);
  }
}

/** Up to this number of hits, each number has its own bin. */
const EXACT = 64;
/** Beyond, the number of bins per doubling: a bin is accurate to 4.5 %. */
const BINS_A_DOUBLING = 16;

interface Bin {
  windows: number;
  hits: number;
}

/** Hits of keys in a window: each window of each key counts by the number of keys that its key stands for. */
class HitsHistogram {
  readonly #bins = new Map<number, Bin>();

  /** The number of windows, by the weights of their keys. */
  windows = 0;
  hits = 0;
  max = 0;

  add(hits: number, weight: number): void {
    const at = binOf(hits);
    let bin = this.#bins.get(at);
    if (!bin) {
      bin = { windows: 0, hits: 0 };
      this.#bins.set(at, bin);
    }
    bin.windows += weight;
    bin.hits += hits * weight;
    this.windows += weight;
    this.hits += hits * weight;
    if (hits > this.max) this.max = hits;
  }

  copy(): HitsHistogram {
    const copy = new HitsHistogram();
    for (const [at, bin] of this.#bins) copy.#bins.set(at, { ...bin });
    return Object.assign(copy, { windows: this.windows, hits: this.hits, max: this.max });
  }

  /** The most hits that this share of the windows has; 0: there were no windows. */
  quantile(part: number): number {
    let left = part * this.windows - 1e-9;
    for (const [, { windows, hits }] of this.#sorted()) {
      left -= windows;
      if (left <= 0) return Math.round(hits / windows);
    }
    return this.max;
  }

  /** The hits beyond a limit, summed over all windows: the number that a fixed window would have refused. */
  above(limit: number): number {
    let sum = 0;
    for (const { windows, hits } of this.#bins.values()) sum += Math.max(hits - limit * windows, 0);
    return Math.round(sum);
  }

  #sorted(): readonly (readonly [number, Bin])[] {
    return [...this.#bins].sort(([one], [other]) => one - other);
  }
}

const binOf = (hits: number): number =>
  hits <= EXACT ? hits : EXACT + Math.ceil(BINS_A_DOUBLING * Math.log2(hits / EXACT));

/**
 * The keys with the most hits, which a sample of keys may miss: every key with more than 1/64 of the hits is included.
 * A key that becomes heavy late is only followed from then on.
 */
class HeavyKeys {
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
