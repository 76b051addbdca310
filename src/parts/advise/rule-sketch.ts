import { SpaceSaving } from '../lab/sketches/space-saving.ts';
import { type KeyBudget, PeakHits } from '../replay/key-figures.ts';
import { KeyArrivals } from './key-arrivals.ts';
import { isSampled } from './key-sample.ts';

const DAY_MS = 86_400_000;

/** Number of keys of a rule that are tracked because of their hits. */
const HEAVY_KEYS = 64;

/** Maximum number of kept keys, at which all that are no longer heavy are dropped. */
export const MAX_HEAVY_KEYS = 2 * HEAVY_KEYS;

/** Hits of a key under a rule. */
export interface Arrival {
  /** The domain and entries, as in a counter's key. */
  readonly key: string;
  /** Number of hits, at least 1. */
  readonly hits: number;
  readonly timeMs: number;
  /** Whether the limit refused the hits, even if the answer was no refusal. */
  readonly isRefused: boolean;
  /** Hash of the client; undefined if the request names no client besides its key. */
  readonly client: number | undefined;
  /** Level of the sample that the arrivals come from, one key in 2^level. */
  readonly level: number;
}

interface SketchOptions {
  readonly windowMs: number;
  /** Maximum number of keys in the sample. */
  readonly maxKeys: number;
  readonly seed: number;
  /** Budget shared by all sketches. */
  readonly budget: KeyBudget;
  /** Budget for `PeakHits`; undefined to ignore hits admitted around window boundaries. */
  readonly admittedKeys: KeyBudget | undefined;
  /** Frees space for another key in any sketch, or returns false. */
  readonly makeRoom: () => boolean;
}

/** A key, and a summary of its hits. */
export interface FollowedKey {
  readonly key: string;
  /** Number of keys that it represents. */
  readonly weight: number;
  readonly arrivals: KeyArrivals;
}

/** The observed traffic of a limit's keys. */
export type ObservedRule = Readonly<NonNullable<ReturnType<RuleSketch['observed']>>>;

/** Aggregates the arrivals of one limit in bounded memory. */
export class RuleSketch {
  readonly #options: SketchOptions;
  /**
   * A sample of one key in 2^level, chosen by hash and tracked from the first hit. When it is full, half of the keys are
   * dropped. Every key is equally likely to be sampled, whatever its number of hits, so fractions of the sample estimate
   * fractions of all keys. The number of all keys is 2^level times that of the sample, with a standard error of about
   * 1.2 / √sample.
   *
   * @see https://doi.org/10.1007/BF02241657 Flajolet, On adaptive sampling
   */
  readonly #sample = new Map<string, KeyArrivals>();
  #level = 0;
  #heavy: HeavyKeys | undefined;
  readonly #windows = new HitsHistogram();
  readonly #admitted: PeakHits | undefined;
  /** In UTC, with hits. */
  readonly #days = new Set<number>();
  /** `untracked` are requests of keys beyond the memory limit. */
  readonly #sums = { requests: 0, hits: 0, refusedHits: 0, untracked: 0 };
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(options: SketchOptions) {
    this.#options = options;
    if (options.admittedKeys) this.#admitted = new PeakHits(options.windowMs, options.admittedKeys);
  }

  /** The number of keys in the sample. */
  get size(): number {
    return this.#sample.size;
  }

  /** Number of keys charged to the budget. */
  get charged(): number {
    return this.size + (this.#heavy ? MAX_HEAVY_KEYS : 0);
  }

  get isMet(): boolean {
    return this.#sums.requests > 0;
  }

  add(arrival: Arrival): void {
    const { key, hits, timeMs, isRefused, client, level } = arrival;
    if (level > this.#level) this.#raiseTo(level);
    this.#count(arrival);
    if (!isRefused) this.#admitted?.admitted(key, hits, timeMs);
    const sampled = this.#sampled(key);
    const heavy = this.#heavy?.add(key, hits, sampled);
    const arrivals = sampled ?? heavy;
    if (!arrivals) return;
    const ended = arrivals.add(hits, timeMs, this.#options.windowMs);
    if (ended > 0) this.#windows.add(ended, heavy ? 1 : this.#weight);
    if (isRefused) arrivals.refusedHits += hits;
    if (client !== undefined) arrivals.addClient(client);
  }

  /** Forgets what another limit admitted. */
  limitChanged(): void {
    this.#admitted?.restart();
  }

  /** Drops half of the sample. */
  halve(): void {
    this.#raiseTo(this.#level + 1);
  }

  observed() {
    if (!this.isMet) return undefined;
    const followed = [...this.#followed()];
    const windows = this.#windows.copy();
    for (const { arrivals, weight } of followed) if (arrivals.count > 0) windows.add(arrivals.count, weight);
    return {
      ...this.#sums,
      windowMs: this.#options.windowMs,
      /** Number of keys; an estimate unless every key is tracked. */
      keys: followed.reduce((sum, { weight }) => sum + weight, 0),
      /** One key in this many is tracked, in addition to those with most hits. */
      oneIn: this.#weight,
      firstMs: this.#firstMs,
      lastMs: this.#lastMs,
      days: this.#days.size,
      followed,
      windows,
      /** Maximum hits admitted for one key within the length of a window, wherever the interval begins. */
      admitted: this.#admitted?.peak,
    };
  }

  *#followed(): Iterable<FollowedKey> {
    const heavy = this.#heavy?.followed;
    for (const [key, arrivals] of this.#sample) yield { key, arrivals, weight: heavy?.has(key) ? 1 : this.#weight };
    for (const [key, arrivals] of heavy ?? [])
      if (!this.#sample.has(key) && arrivals.hits > 0) yield { key, arrivals, weight: 1 };
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
    const known = this.#sample.get(key);
    if (known) return known;
    if (!this.#accepts(key)) return undefined;
    if (this.#sample.size >= this.#options.maxKeys) this.halve();
    if (this.#options.budget.left <= 0 && !this.#options.makeRoom()) {
      this.#sums.untracked++;
      return undefined;
    }
    if (!this.#accepts(key)) return undefined;
    this.#options.budget.left--;
    const arrivals = new KeyArrivals();
    this.#sample.set(key, arrivals);
    return arrivals;
  }

  #raiseTo(level: number): void {
    const { budget } = this.#options;
    if (!this.#heavy) {
      this.#heavy = new HeavyKeys(this.#sample);
      budget.left -= MAX_HEAVY_KEYS;
    }
    this.#level = level;
    for (const key of this.#sample.keys()) if (!this.#accepts(key) && this.#sample.delete(key)) budget.left++;
  }

  /** Number of keys that each key of the sample represents. */
  get #weight(): number {
    return 2 ** this.#level;
  }

  #accepts(key: string): boolean {
    return isSampled(this.#options.seed, key, this.#level);
  }
}

/** Number of hits up to which each has its own bin. */
const EXACT = 64;
/** Bins per doubling beyond that, for an accuracy of 4.5 %. */
const BINS_PER_DOUBLING = 16;

/** Histogram of hits of keys in a window, in which a window counts by the number of keys that its key represents. */
class HitsHistogram {
  readonly #bins = new Map<number, { windows: number; hits: number }>();

  /** Number of windows, weighted by key. */
  windows = 0;
  max = 0;

  add(hits: number, weight: number): void {
    const at = findBin(hits);
    const bin = this.#bins.get(at) ?? { windows: 0, hits: 0 };
    bin.windows += weight;
    bin.hits += hits * weight;
    this.#bins.set(at, bin);
    this.windows += weight;
    if (hits > this.max) this.max = hits;
  }

  copy(): HitsHistogram {
    const copy = new HitsHistogram();
    for (const [at, bin] of this.#bins) copy.#bins.set(at, { ...bin });
    return Object.assign(copy, { windows: this.windows, max: this.max });
  }

  /** Maximum hits of this fraction of the windows; 0 without windows. */
  quantile(part: number): number {
    let left = part * this.windows - 1e-9;
    for (const [, { windows, hits }] of [...this.#bins].sort(([one], [other]) => one - other)) {
      left -= windows;
      if (left <= 0) return Math.round(hits / windows);
    }
    return this.max;
  }

  /** Hits beyond a limit, summed over all windows, which a fixed window would have refused. */
  above(limit: number): number {
    let sum = 0;
    for (const { windows, hits } of this.#bins.values()) sum += Math.max(hits - limit * windows, 0);
    return Math.round(sum);
  }
}

const findBin = (hits: number): number =>
  hits <= EXACT ? hits : EXACT + Math.ceil(BINS_PER_DOUBLING * Math.log2(hits / EXACT));

/**
 * The keys with most hits, which a sample of keys may miss. Every key with more than 1/64 of the hits is included, but
 * is tracked only from when it becomes heavy.
 */
class HeavyKeys {
  readonly #counts = new SpaceSaving();
  readonly followed = new Map<string, KeyArrivals>();

  /** @param known  number of all keys so far */
  constructor(known: ReadonlyMap<string, KeyArrivals>) {
    const heaviest = [...known].sort(([, one], [, other]) => other.hits - one.hits).slice(0, HEAVY_KEYS);
    for (const [key, arrivals] of heaviest) {
      this.#counts.addNew(key, arrivals.hits, true);
      this.followed.set(key, arrivals);
    }
  }

  /** @param sampled  the key's arrivals if it is in the sample @returns its arrivals if it is heavy */
  add(key: string, hits: number, sampled: KeyArrivals | undefined): KeyArrivals | undefined {
    if (!this.#counts.addToKnown(key, hits)) {
      this.#counts.addNew(key, hits, this.#counts.size < HEAVY_KEYS);
      return undefined; // most keys end here
    }
    const known = this.followed.get(key);
    if (known) return known;
    if (this.followed.size >= MAX_HEAVY_KEYS) this.#forget();
    const followed = sampled ?? new KeyArrivals();
    this.followed.set(key, followed);
    return followed;
  }

  #forget(): void {
    const heavy = new Set(Array.from(this.#counts.entries(), ({ key }) => key));
    for (const key of this.followed.keys()) if (!heavy.has(key)) this.followed.delete(key);
  }
}
