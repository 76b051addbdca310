import type { SiteReport } from '../algorithms/limit.ts';
import type { SiteShareLimit } from '../algorithms/site-share.ts';
import type { Monotonic } from '../clock.ts';

/** For so long the largest error is shown. */
const SHOWN_MS = 60_000;

/**
 * By how much a limit is exceeded, as a part of it.
 *
 * @param used  by all sites, as far as they are known
 * @param room  what this site may still admit of its share; below 0 where it has admitted hits in advance
 */
export function errorRatioOf({ of, burst, requestsPerUnit }: SiteShareLimit, used: number, room: number): number {
  const total = of === 'token_bucket' ? burst : requestsPerUnit;
  return Math.max(used - total, -room, 0) / Math.max(total, 1);
}

/** By how much shared limits are exceeded, as far as exchanges show it. */
export class MeasuredError {
  readonly #monotonicMs: Monotonic;
  #ratio = 0;
  #bound = 0;
  #atMs = 0;

  constructor(monotonicMs: Monotonic) {
    this.#monotonicMs = monotonicMs;
  }

  /** Of the last minute's limit that is furthest beyond its bound, or nearest to it; as a part of the limit. */
  get ratio(): number {
    return this.#isOver() ? 0 : this.#ratio;
  }

  /** What the rule of that limit declares. */
  get bound(): number {
    return this.#isOver() ? 0 : this.#bound;
  }

  /** @param others  what the sites that answered have admitted in the same epoch */
  note(limit: SiteShareLimit, { used, room }: SiteReport, others: number): void {
    const ratio = errorRatioOf(limit, used + others, room);
    const bound = limit.maxErrorPercent / 100;
    if (ratio - bound < this.#ratio - this.#bound && !this.#isOver()) return;
    this.#ratio = ratio;
    this.#bound = bound;
    this.#atMs = this.#monotonicMs();
  }

  #isOver(): boolean {
    return this.#monotonicMs() - this.#atMs > SHOWN_MS;
  }
}
