import { BoundedMap } from '../bounded-map.ts';

/** Maximum keys with a budget; beyond it, the oldest is dropped. */
export const MAX_KEYS = 10_000;

/** Adding a tenth ten times must result in one. */
const ROUNDING = 1e-9;

/**
 * A token bucket of retries per key, filled by requests: while a server fails, retries add at most this share to its
 * load, regardless of the attempts per request.
 */
export class RetryBudget {
  readonly #ratio: number;
  readonly #max: number;
  readonly #tokens = new BoundedMap<string, number>(MAX_KEYS);

  constructor({ ratio, max }: { readonly ratio: number; readonly max: number }) {
    this.#ratio = ratio;
    this.#max = max;
  }

  /** A request is about to be sent for the first time. */
  deposit(key: string): void {
    this.#tokens.set(key, Math.min(this.#max, this.#left(key) + this.#ratio));
  }

  /** Takes a retry. @returns  whether there was one */
  withdraw(key: string): boolean {
    const left = this.#left(key) - 1;
    if (left < -ROUNDING) return false;
    this.#tokens.set(key, left);
    return true;
  }

  #left(key: string): number {
    return this.#tokens.get(key) ?? this.#max;
  }
}
