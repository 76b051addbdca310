/** Hits at instants, summed up to any instant. */
export class Sums {
  readonly #times: Float64Array;
  /** The hits of the first n instants. */
  readonly #sums: Float64Array;

  constructor(points: readonly (readonly [time: number, hits: number])[]) {
    const sorted = isSorted(points) ? points : [...points].sort(([a], [b]) => a - b);
    this.#times = new Float64Array(sorted.length);
    this.#sums = new Float64Array(sorted.length + 1);
    sorted.forEach(([time, hits], at) => {
      this.#times[at] = time;
      this.#sums[at + 1] = (this.#sums[at] ?? 0) + hits;
    });
  }

  /** The hits before an instant. */
  before(time: number): number {
    return this.#sums[this.#count((one) => one < time)] ?? 0;
  }

  /** The hits up to an instant, itself included. */
  upTo(time: number): number {
    return this.#sums[this.#count((one) => one <= time)] ?? 0;
  }

  /** How many of the sorted times satisfy a condition that holds for a first part of them. */
  #count(isEarly: (time: number) => boolean): number {
    let [low, high] = [0, this.#times.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isEarly(this.#times[middle] ?? 0)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isSorted(points: readonly (readonly [number, number])[]): boolean {
  return points.every(([time], at) => at === 0 || time >= (points[at - 1]?.[0] ?? 0));
}
