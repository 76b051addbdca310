/**
 * Rates, in hits per window, for which the burst that a key needs is tracked, each twice the previous one. Since the
 * burst is a convex function of the rate, there is an upper bound between them.
 */
const TRACKED_RATES: readonly number[] = Array.from({ length: 18 }, (_, at) => 2 ** at);
const RATES = TRACKED_RATES.length;

/** Approximate memory of a tracked key, with this object, a name of a hundred characters and a map entry. */
export const FOLLOWED_KEY_BYTES = 1_000;

/**
 * A summary of one key's hits, in constant memory.
 *
 * The burst that a key needs at a rate is the size of the smallest token bucket, refilled at that rate, that would have
 * passed all of its hits, which is the maximum of (hits in an interval − rate × length) over all intervals. As a
 * function of the rate it is the conjugate of the arrival curve of network calculus, of which `mostWithin` is the
 * concave hull.
 *
 * @see https://doi.org/10.1109/18.61109 Cruz, A calculus for network delay
 * @see https://leboudec.github.io/netcal/ Le Boudec and Thiran, Network Calculus, section 1.2
 */
export class KeyArrivals {
  hits = 0;
  refusedHits = 0;
  /** Hits of its busiest window, where windows begin at multiples of their length. */
  busiest = 0;
  /** The peak of the hits in the last window, as `sliding_window_counter` estimates them. */
  busiestSliding = 0;
  /** The window of the last hit, and the hits in it and in the previous one. */
  window = 0;
  count = 0;
  #previous = 0;
  #lastMs = Number.NEGATIVE_INFINITY;
  /** Bucket levels after the last hit, by rate, followed by the highest levels, by rate. */
  readonly #levels = new Float64Array(2 * RATES);
  clients: ClientCount | undefined;

  /** @returns the hits of the window that this hit ended, or 0 if none ended */
  add(hits: number, timeMs: number, windowMs: number): number {
    const nowMs = Math.max(timeMs, this.#lastMs); // the clock may be set back
    const ended = this.#enter(Math.floor(nowMs / windowMs));
    this.hits += hits;
    this.count += hits;
    if (this.count > this.busiest) this.busiest = this.count;
    const leftMs = (this.window + 1) * windowMs - nowMs;
    const sliding = this.count + Math.floor((this.#previous * leftMs) / windowMs);
    if (sliding > this.busiestSliding) this.busiestSliding = sliding;
    this.#fill(hits, nowMs === this.#lastMs ? 0 : (nowMs - this.#lastMs) / windowMs);
    this.#lastMs = nowMs;
    return ended;
  }

  addClient(hash: number): void {
    this.clients ??= new ClientCount();
    this.clients.add(hash);
  }

  #enter(window: number): number {
    if (window === this.window) return 0;
    const ended = this.count;
    this.#previous = window === this.window + 1 ? ended : 0;
    this.window = window;
    this.count = 0;
    return ended;
  }

  /** @param windows  number of windows since the previous hit */
  #fill(hits: number, windows: number): void {
    const levels = this.#levels;
    for (let at = 0, rate = 1; at < RATES; at++, rate *= 2) {
      const level = Math.max((levels[at] ?? 0) - windows * rate, 0) + hits;
      levels[at] = level;
      if (level > (levels[RATES + at] ?? 0)) levels[RATES + at] = level;
    }
  }

  /**
   * The burst that the key needs at a rate, exact at tracked rates and an upper bound between them.
   *
   * @param rate  at least 1
   */
  burstAt(rate: number): number {
    const at = Math.min(Math.floor(Math.log2(Math.max(rate, 1)) + 1e-9), RATES - 1);
    const lower = this.#levels[RATES + at] ?? 0;
    if (at === RATES - 1) return lower;
    const upper = this.#levels[RATES + at + 1] ?? 0;
    const from = 2 ** at;
    return Math.ceil(lower + ((upper - lower) * (rate - from)) / from - 1e-9);
  }

  /** Upper bound for the hits within any interval of this number of windows. */
  mostWithin(windows: number): number {
    let most = this.hits;
    for (let at = 0, rate = 1; at < RATES; at++, rate *= 2)
      most = Math.min(most, (this.#levels[RATES + at] ?? 0) + rate * windows);
    return Math.floor(most + 1e-9);
  }
}

/** Size of the bitmap, which distinguishes about 5,000 clients. */
const WORDS = 32;
const BITS = 32 * WORDS;

/**
 * Counts the clients behind a key, in 128 octets, by linear counting.
 *
 * @see https://doi.org/10.1145/78922.78925
 */
class ClientCount {
  readonly #bits = new Int32Array(WORDS);

  /** @param hash  32-bit hash of the client */
  add(hash: number): void {
    const bit = (hash >>> 0) % BITS;
    const word = bit >> 5;
    this.#bits[word] = (this.#bits[word] ?? 0) | (1 << (bit & 31));
  }

  /** Approximate number of clients; undefined if there are too many. */
  get estimate(): number | undefined {
    let empty = 0;
    for (const word of this.#bits) for (let bit = 0; bit < 32; bit++) empty += (word >>> bit) & 1 ? 0 : 1;
    return empty === 0 ? undefined : Math.round(-BITS * Math.log(empty / BITS));
  }
}
