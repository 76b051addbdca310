import { BoundedMap } from '../bounded-map.ts';
import { MAX_KEYS } from './budget.ts';
import type { SharedPauses } from './shared-pauses.ts';

/** The time until which each key accepts no requests, as requested from this process and all others. */
export class Pauses {
  readonly #untilMs = new BoundedMap<string, number>(MAX_KEYS);
  readonly #shared: SharedPauses | undefined;
  readonly #nowMs: () => number;

  constructor(shared: SharedPauses | undefined, nowMs: () => number) {
    this.#shared = shared;
    this.#nowMs = nowMs;
  }

  /** The rest of the pause, or 0 without one. */
  async leftMs(key: string): Promise<number> {
    const sharedUntilMs = (await this.#shared?.read(key)) ?? 0;
    const untilMs = Math.max(this.#untilMs.get(key) ?? 0, sharedUntilMs);
    return Math.max(0, Math.ceil(untilMs - this.#nowMs()));
  }

  /** Extends the pause to `ms` from now; never shortens it. */
  async extend(key: string, ms: number): Promise<void> {
    if (ms <= 0) return;
    const untilMs = this.#nowMs() + ms;
    if (untilMs > (this.#untilMs.get(key) ?? 0)) this.#untilMs.set(key, untilMs);
    await this.#shared?.extend(key, Math.ceil(ms));
  }
}
