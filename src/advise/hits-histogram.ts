/** Hits up to so many have a bin of their own. */
const EXACT = 64;
/** Beyond, so many bins for each doubling: a bin is within 4.5 %. */
const BINS_A_DOUBLING = 16;

interface Bin {
  windows: number;
  hits: number;
}

/** Hits of keys in a window: each window of each key counts once, or as often as its key stands for others. */
export class HitsHistogram {
  readonly #bins = new Map<number, Bin>();

  /** Windows of keys that were counted. */
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

  /** The hits that so large a part of the windows has at most; 0: there were none. */
  quantile(part: number): number {
    let left = part * this.windows - 1e-9;
    for (const [, { windows, hits }] of this.#sorted()) {
      left -= windows;
      if (left <= 0) return Math.round(hits / windows);
    }
    return this.max;
  }

  /** The hits beyond a limit, in all windows: what a fixed window would have refused. */
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
