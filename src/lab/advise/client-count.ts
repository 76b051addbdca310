/** Enough to distinguish about 5,000 clients. */
const WORDS = 32;
const BITS = 32 * WORDS;

/**
 * Counts the clients behind a key, in 128 octets, by linear counting.
 *
 * @see https://doi.org/10.1145/78922.78925
 */
export class ClientCount {
  readonly #bits = new Int32Array(WORDS);

  /** @param hash  of the client, 32 bits */
  add(hash: number): void {
    const bit = (hash >>> 0) % BITS;
    const word = bit >> 5;
    this.#bits[word] = (this.#bits[word] ?? 0) | (1 << (bit & 31));
  }

  /** The approximate number of clients; undefined: too many. */
  get estimate(): number | undefined {
    let empty = 0;
    for (const word of this.#bits) for (let bit = 0; bit < 32; bit++) empty += (word >>> bit) & 1 ? 0 : 1;
    return empty === 0 ? undefined : Math.round(-BITS * Math.log(empty / BITS));
  }
}
