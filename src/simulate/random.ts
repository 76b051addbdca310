import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { mersenne } from 'pure-rand/generator/mersenne';

/** A source of random numbers: the same for the same seed. */
export class Random {
  readonly #generator: ReturnType<typeof mersenne>;

  constructor(seed: number) {
    this.#generator = mersenne(seed);
  }

  /** From 0 up to, but not, 1. */
  uniform(): number {
    return uniformFloat64(this.#generator);
  }

  between(from: number, to: number): number {
    return from + (to - from) * this.uniform();
  }

  /** A whole number from 0 up to, but not, `below`. */
  below(below: number): number {
    return Math.floor(below * this.uniform());
  }

  /** The time to the next event of a Poisson process. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.uniform());
  }

  /** Times of a Poisson process whose rate varies, by thinning. */
  *arrivals(
    fromMs: number,
    toMs: number,
    perSecond: (atMs: number) => number,
    mostPerSecond: number,
  ): Iterable<number> {
    for (
      let atMs = fromMs + this.exponential(1_000 / mostPerSecond);
      atMs < toMs;
      atMs += this.exponential(1_000 / mostPerSecond)
    )
      if (this.uniform() * mostPerSecond < perSecond(atMs)) yield atMs;
  }

  /** Times of a Poisson process. */
  steady(fromMs: number, toMs: number, perSecond: number): Iterable<number> {
    return this.arrivals(fromMs, toMs, () => perSecond, perSecond);
  }
}

/** Numbers from 0 on of which the first are the most frequent: number n as often as 1 / (n + 1). */
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
