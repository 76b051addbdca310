/** Number of parts of a window for which hits are summed. */
const PARTS = 20;

/** A time, and the key that it belongs to. */
export interface KeyAtTime {
  readonly key: string;
  readonly timeMs: number;
}

/** Number of keys that may still be added, shared by all rules. */
export interface KeyBudget {
  left: number;
}

/** Values of keys up to a budget that it shares with others. */
export class BudgetedKeys<T> {
  readonly #budget: KeyBudget;
  readonly all = new Map<string, T>();
  /** Additions beyond the budget. */
  untracked = 0;

  constructor(budget: KeyBudget) {
    this.#budget = budget;
  }

  get isFull(): boolean {
    return this.#budget.left <= 0;
  }

  /** Adds a new key. @returns undefined  beyond the budget */
  add(key: string, value: T): T | undefined {
    if (this.isFull) {
      this.untracked++;
      return undefined;
    }
    this.#budget.left--;
    this.all.set(key, value);
    return value;
  }

  drop(key: string): void {
    if (this.all.delete(key)) this.#budget.left++;
  }
}

/** The refusals of a key. */
interface HurtKey {
  refusals: number;
  /** Time of the first refusal since the last admission; undefined if the last hits were admitted. */
  lockedSinceMs: number | undefined;
}

/** Refused keys of one rule. */
export class HurtKeys extends BudgetedKeys<HurtKey> {
  first: KeyAtTime | undefined;
  longest: (KeyAtTime & { readonly ms: number }) | undefined;

  refused(key: string, timeMs: number): void {
    const known = this.all.get(key);
    if (!known) {
      this.first ??= { key, timeMs };
      this.add(key, { refusals: 1, lockedSinceMs: timeMs });
      return;
    }
    known.refusals++;
    known.lockedSinceMs ??= timeMs;
    const ms = timeMs - known.lockedSinceMs;
    if (ms > (this.longest?.ms ?? 0)) this.longest = { key, timeMs: known.lockedSinceMs, ms };
  }

  admitted(key: string): void {
    const known = this.all.size === 0 ? undefined : this.all.get(key);
    if (known) known.lockedSinceMs = undefined;
  }

  *refusals(): Iterable<KeyRefusals> {
    for (const [key, { refusals }] of this.all) yield { key, refusals };
  }
}

/** A key, and the number of its refusals. */
export interface KeyRefusals {
  readonly key: string;
  readonly refusals: number;
}

/** The keys with most refusals, in descending order. */
export function mostRefused(keys: Iterable<KeyRefusals>, count: number): readonly KeyRefusals[] {
  const most: KeyRefusals[] = [];
  for (const one of keys) {
    const at = most.findIndex((other) => isMore(one, other));
    if (at < 0 && most.length >= count) continue;
    most.splice(at < 0 ? most.length : at, 0, one);
    if (most.length > count) most.pop();
  }
  return most;
}

const isMore = (one: KeyRefusals, other: KeyRefusals): boolean =>
  one.refusals > other.refusals || (one.refusals === other.refusals && one.key < other.key);

/** The hits of a key in the last `PARTS` parts. */
interface RecentHits {
  /** The part with the last hits. */
  part: number;
  sum: number;
  /** Hits by part modulo `PARTS`. */
  readonly byPart: number[];
}

/**
 * Tracks the maximum hits of one key admitted within the length of a window. Intervals begin at multiples of a
 * twentieth of the window, so the true maximum may be higher by the hits of one twentieth.
 */
export class PeakHits extends BudgetedKeys<RecentHits> {
  readonly windowMs: number;
  #sweptAtPart = Number.NEGATIVE_INFINITY;
  peak: (KeyAtTime & { readonly hits: number }) | undefined;

  constructor(windowMs: number, budget: KeyBudget) {
    super(budget);
    this.windowMs = windowMs;
  }

  /** Counts hits, unless the key is beyond the budget. */
  admitted(key: string, hits: number, timeMs: number): void {
    const part = Math.floor((timeMs * PARTS) / this.windowMs);
    const recent = this.all.get(key) ?? this.#begin(key, part);
    if (!recent) return;
    if (part > recent.part) advance(recent, part);
    const at = recent.part % PARTS;
    recent.byPart[at] = (recent.byPart[at] ?? 0) + hits;
    recent.sum += hits;
    if (recent.sum > (this.peak?.hits ?? 0)) this.peak = { key, timeMs, hits: recent.sum };
  }

  /** Forgets all hits. */
  restart(): void {
    for (const key of this.all.keys()) this.drop(key);
    this.peak = undefined;
  }

  #begin(key: string, part: number): RecentHits | undefined {
    if (this.isFull) this.#sweep(part);
    return this.isFull ? undefined : this.add(key, { part, sum: 0, byPart: new Array<number>(PARTS).fill(0) });
  }

  /** Drops keys without hits in the last window, at most once per part. */
  #sweep(part: number): void {
    if (part === this.#sweptAtPart) return;
    this.#sweptAtPart = part;
    for (const [key, recent] of this.all) if (recent.part <= part - PARTS) this.drop(key);
  }
}

/** Drops parts that are older than a window. */
function advance(recent: RecentHits, part: number): void {
  for (let one = Math.max(recent.part + 1, part - PARTS + 1); one <= part; one++) {
    const at = one % PARTS;
    recent.sum -= recent.byPart[at] ?? 0;
    recent.byPart[at] = 0;
  }
  recent.part = part;
}
