import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { mersenne } from 'pure-rand/generator/mersenne';

/** A source of random numbers; equal seeds give equal numbers. */
export class Random {
  readonly #generator: ReturnType<typeof mersenne>;

  constructor(seed: number) {
    this.#generator = mersenne(seed);
  }

  /** A number from 0 to 1, exclusive. */
  uniform(): number {
    return uniformFloat64(this.#generator);
  }

  between(from: number, to: number): number {
    return from + (to - from) * this.uniform();
  }

  /** An integer from 0 to `below`, exclusive. */
  below(below: number): number {
    return Math.floor(below * this.uniform());
  }

  /** The time to the next event of a Poisson process. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.uniform());
  }

  /** Times of a Poisson process with a varying rate, by thinning. */
  *arrivals(fromMs: number, toMs: number, perSecond: (atMs: number) => number, maxPerSecond: number): Iterable<number> {
    for (
      let atMs = fromMs + this.exponential(1_000 / maxPerSecond);
      atMs < toMs;
      atMs += this.exponential(1_000 / maxPerSecond)
    )
      if (this.uniform() * maxPerSecond < perSecond(atMs)) yield atMs;
  }

  /** Times of a Poisson process. */
  steady(fromMs: number, toMs: number, perSecond: number): Iterable<number> {
    return this.arrivals(fromMs, toMs, () => perSecond, perSecond);
  }
}

/** Draws integers from 0 with a frequency proportional to 1 / (n + 1). */
export class Zipf {
  readonly #sums: readonly number[];

  constructor(size: number) {
    let sum = 0;
    this.#sums = Array.from({ length: size }, (_, at) => {
      sum += 1 / (at + 1);
      return sum;
    });
  }

  draw(random: Random): number {
    const place = random.uniform() * (this.#sums.at(-1) ?? 0);
    let [low, high] = [0, this.#sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#sums[middle] ?? 0) > place) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
