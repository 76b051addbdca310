/** The length of a slot of the profile. */
const SLOT_MS = 20;

/** The bytes that an attack sent over time, so that the same number of valid bytes can be sent at the same pace. */
export interface Profile {
  /** Bytes sent in each slot, in order, without empty slots. */
  readonly slots: readonly (readonly [startMs: number, bytes: number])[];
  readonly bytes: number;
  /** Maximum number of simultaneously open connections. */
  readonly connections: number;
}

/** Counts the connections and sent bytes of an attacker. */
export class Ledger {
  readonly #startedMs = performance.now();
  readonly #slots = new Map<number, number>();
  #open = 0;
  #maxOpen = 0;
  #bytes = 0;

  opened(): void {
    this.#open++;
    this.#maxOpen = Math.max(this.#maxOpen, this.#open);
  }

  closed(): void {
    this.#open--;
  }

  sent(bytes: number): void {
    const slot = Math.floor((performance.now() - this.#startedMs) / SLOT_MS) * SLOT_MS;
    this.#slots.set(slot, (this.#slots.get(slot) ?? 0) + bytes);
    this.#bytes += bytes;
  }

  get profile(): Profile {
    return { slots: [...this.#slots], bytes: this.#bytes, connections: this.#maxOpen };
  }
}
