/** Misses are noted by slices of counters, and the rest for the counters used last, to bound the memory. */
const SLICES = 4_096;
const MAX_COUNTERS = 20_000;
const TWO_TO_32 = 2 ** 32;
/** How long the share of counters stays as it is after it was lowered, and before it is raised. */
const LOWERED_FOR_MS = 1_000;
const RAISED_AFTER_MS = 10_000;
/** Below this share none is tried. */
const MIN_SHARE = 1 / 64;

/** Identifies a counter. */
export interface CounterId {
  /** 32 bits; see `CANDIDATE_SAMPLE`. */
  readonly hash: number;
  /** 53 bits. */
  readonly id: number;
}

/**
 * The counters whose requests are tried, and those whose states have been what they would be if the candidate had been
 * in force. While not all requests can be tried, whole counters are left out, by the same hash as `CANDIDATE_SAMPLE`.
 */
export class Coverage {
  readonly #maxShare: number;
  #share: number;
  #changedAtMs = Number.NEGATIVE_INFINITY;
  #begunAtMs = 0;
  /** When a request was missed last, per slice. */
  readonly #missedAtMs = new Float64Array(SLICES);
  /** The last request of counters by id, the least recently used first. */
  readonly #last = new Map<number, { readonly atMs: number; readonly hash: number; readonly isExact: boolean }>();

  /** @param maxShare  the share of all counters that may be tried: above 0 and up to 1 */
  constructor(maxShare: number, nowMs: number) {
    this.#maxShare = maxShare;
    this.#share = maxShare;
    this.begin(nowMs);
  }

  /** The share of counters that are tried now. */
  get share(): number {
    return this.#share;
  }

  /** One of the rule trees has changed: counters may be in use. */
  begin(nowMs: number): void {
    this.#begunAtMs = nowMs;
    this.#missedAtMs.fill(Number.NEGATIVE_INFINITY);
    this.#last.clear();
  }

  /** Tries half as many counters. */
  lower(nowMs: number): void {
    if (nowMs - this.#changedAtMs < LOWERED_FOR_MS) return;
    this.#share = this.#share > MIN_SHARE ? this.#share / 2 : 0;
    this.#changedAtMs = nowMs;
  }

  /** Tries twice as many counters if it was not lowered for some time. */
  raise(nowMs: number): void {
    if (this.#share === this.#maxShare || nowMs - this.#changedAtMs < RAISED_AFTER_MS) return;
    this.#share = Math.min(Math.max(this.#share * 2, MIN_SHARE), this.#maxShare);
    this.#changedAtMs = nowMs;
  }

  /** A request of a counter was not tried, or not counted by both sides. */
  miss(hash: number, nowMs: number): void {
    const slice = sliceOf(hash);
    this.#missedAtMs[slice] = Math.max(this.#missedAt(slice), nowMs);
  }

  hasMissed({ hash }: CounterId): boolean {
    return this.#missedAt(sliceOf(hash)) > Number.NEGATIVE_INFINITY;
  }

  /** Since when each request of a counter was tried. */
  sinceMs({ hash }: CounterId): number {
    return Math.max(this.#begunAtMs, this.#missedAt(sliceOf(hash)));
  }

  /** Whether a counter was exact at its last request, and has missed none since. */
  wasExact({ hash, id }: CounterId): boolean {
    const last = this.#last.get(id);
    return last?.isExact === true && last.atMs > this.#missedAt(sliceOf(hash));
  }

  /** The time for which a counter has had no request. */
  idleMs(counter: CounterId, nowMs: number): number {
    return nowMs - Math.max(this.sinceMs(counter), this.#last.get(counter.id)?.atMs ?? Number.NEGATIVE_INFINITY);
  }

  /** Notes a request of a counter. */
  note({ hash, id }: CounterId, atMs: number, isExact: boolean): void {
    this.#last.delete(id);
    this.#last.set(id, { atMs, hash, isExact });
    if (this.#last.size <= MAX_COUNTERS) return;
    for (const [oldest, { hash: forgotten, atMs: lastMs }] of this.#last) {
      this.#last.delete(oldest);
      return this.miss(forgotten, lastMs);
    }
  }

  #missedAt(slice: number): number {
    return this.#missedAtMs[slice] ?? Number.NEGATIVE_INFINITY;
  }
}

const sliceOf = (hash: number): number => Math.floor((hash / TWO_TO_32) * SLICES);
