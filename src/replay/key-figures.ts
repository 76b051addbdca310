/** Parts of a window that hits are summed up in. */
const PARTS = 20;

/** The refusals of a key. */
export interface HurtKey {
  refusals: number;
  readonly firstMs: number;
  /** The first of the refusals that nothing admitted has interrupted yet; undefined: the last hits were admitted. */
  lockedSinceMs: number | undefined;
  lastMs: number;
  longestLockOutMs: number;
}

/** A time, and whose it is. */
export interface KeyAtTime {
  readonly key: string;
  readonly timeMs: number;
}

/** Keys that may still be remembered, of all rules together. */
export interface KeyBudget {
  left: number;
}

/** Refused keys of one rule. */
export class HurtKeys {
  readonly keys = new Map<string, HurtKey>();
  readonly #budget: KeyBudget;
  first: KeyAtTime | undefined;
  longest: (KeyAtTime & { readonly ms: number }) | undefined;
  /** Refusals of keys beyond the budget. */
  untracked = 0;

  constructor(budget: KeyBudget) {
    this.#budget = budget;
  }

  refused(key: string, timeMs: number): void {
    const known = this.keys.get(key);
    if (!known) return this.#begin(key, timeMs);
    known.refusals++;
    known.lastMs = timeMs;
    known.lockedSinceMs ??= timeMs;
    const ms = timeMs - known.lockedSinceMs;
    if (ms <= known.longestLockOutMs) return;
    known.longestLockOutMs = ms;
    if (ms > (this.longest?.ms ?? 0)) this.longest = { key, timeMs: known.lockedSinceMs, ms };
  }

  admitted(key: string): void {
    const known = this.keys.size === 0 ? undefined : this.keys.get(key);
    if (known) known.lockedSinceMs = undefined;
  }

  #begin(key: string, timeMs: number): void {
    this.first ??= { key, timeMs };
    if (this.#budget.left <= 0) {
      this.untracked++;
      return;
    }
    this.#budget.left--;
    this.keys.set(key, { refusals: 1, firstMs: timeMs, lockedSinceMs: timeMs, lastMs: timeMs, longestLockOutMs: 0 });
  }
}

interface RecentHits {
  /** Hits of the last `PARTS` parts of a window, by the part's number modulo `PARTS`. */
  readonly parts: Float64Array;
  /** Of the part that the last hits were in. */
  part: number;
  sum: number;
}

/**
 * The most hits of one key that were admitted within a window, wherever it begins. It begins at a twentieth of the
 * window: the hits in between may be more by what one twentieth holds.
 */
export class PeakHits {
  readonly windowMs: number;
  readonly #budget: KeyBudget;
  readonly #recent = new Map<string, RecentHits>();
  #sweptAtPart = Number.NEGATIVE_INFINITY;
  peak: (KeyAtTime & { readonly hits: number }) | undefined;
  /** Hits of keys beyond the budget. */
  untracked = 0;

  constructor(windowMs: number, budget: KeyBudget) {
    this.windowMs = windowMs;
    this.#budget = budget;
  }

  admitted(key: string, hits: number, timeMs: number): void {
    const part = Math.floor((timeMs * PARTS) / this.windowMs);
    let recent = this.#recent.get(key);
    if (!recent) {
      if (this.#budget.left <= 0 && !this.#sweep(part)) {
        this.untracked += hits;
        return;
      }
      this.#budget.left--;
      recent = { parts: new Float64Array(PARTS), part, sum: 0 };
      this.#recent.set(key, recent);
    }
    if (part > recent.part) advance(recent, part);
    const at = recent.part % PARTS;
    recent.parts[at] = (recent.parts[at] ?? 0) + hits;
    recent.sum += hits;
    if (recent.sum > (this.peak?.hits ?? 0)) this.peak = { key, timeMs, hits: recent.sum };
  }

  /** Forgets keys without hits in the last window; tried once a part. */
  #sweep(part: number): boolean {
    if (part === this.#sweptAtPart) return false;
    this.#sweptAtPart = part;
    for (const [key, recent] of this.#recent)
      if (recent.part <= part - PARTS && this.#recent.delete(key)) this.#budget.left++;
    return this.#budget.left > 0;
  }
}

/** Drops the parts that are a window old. */
function advance(recent: RecentHits, part: number): void {
  const { parts } = recent;
  if (part - recent.part >= PARTS) {
    parts.fill(0);
    recent.sum = 0;
  } else
    for (let one = recent.part + 1; one <= part; one++) {
      recent.sum -= parts[one % PARTS] ?? 0;
      parts[one % PARTS] = 0;
    }
  recent.part = part;
}
