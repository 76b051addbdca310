import type { MissReason } from '../../engine/rules/match/match.ts';

/** A count of `weir_unmatched_total`. */
export interface UnmatchedCount {
  readonly domain: string;
  readonly reason: MissReason;
  readonly count: number;
}

/** Domains without rules: callers create their names. */
const OTHER = '(other)';

/** The number of descriptors that met no rule, by domain and reason; not sampled. */
export class UnmatchedCounts {
  readonly #byDomain = new Map<string, Map<MissReason, { count: number }>>();
  /** The pair that was counted last: the next one is mostly the same. */
  #domain = '';
  #reason: MissReason | undefined;
  #last = { count: 0 };

  add(domain: string, reason: MissReason): void {
    if (reason !== this.#reason || domain !== this.#domain) {
      this.#last = this.#of(domain, reason);
      this.#domain = domain;
      this.#reason = reason;
    }
    this.#last.count++;
  }

  *all(): Iterable<UnmatchedCount> {
    for (const [domain, byReason] of this.#byDomain)
      for (const [reason, { count }] of byReason) yield { domain, reason, count };
  }

  #of(domain: string, reason: MissReason): { count: number } {
    const label = reason === 'no_domain' ? OTHER : domain;
    const byReason = this.#byDomain.get(label) ?? new Map<MissReason, { count: number }>();
    this.#byDomain.set(label, byReason);
    const known = byReason.get(reason) ?? { count: 0 };
    byReason.set(reason, known);
    return known;
  }
}
