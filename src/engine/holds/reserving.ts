import type { RateLimit } from '../algorithms/index.ts';

/** What limits have whose hits are reserved first: see `isReservation`. */
export interface Reserving {
  /** The limit that counts charged hits. */
  readonly inner: RateLimit;
  /** A reservation that is not committed lapses after this time. */
  readonly ttlMs: number;
  /** Whether lapsed reservations stay charged, or become free. */
  readonly onLapse: 'charge' | 'free';
  /** The minimum reserved: a fixed number of hits, or the 95th percentile of the counter's recent requests. */
  readonly estimate?: number | 'p95' | undefined;
}
