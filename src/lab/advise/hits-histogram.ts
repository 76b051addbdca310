/** Up to this number of hits, each number has its own bin. */
const EXACT = 64;
/** Beyond, the number of bins per doubling: a bin is accurate to 4.5 %. */
const BINS_A_DOUBLING = 16;

interface Bin {
  windows: number;
  hits: number;
}

/** Hits of keys in a window: each window of each key counts by the number of keys that its key stands for. */
export class HitsHistogram {
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
