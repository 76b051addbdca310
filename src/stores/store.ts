import type { Decision, Limit, Spend } from '../algorithms/limit.ts';
import type { Counter, CounterKey } from './key.ts';

/** One counter to touch, and by how much. */
export interface Hit extends Counter {
  readonly limit: Limit;
  /** Whole hits: 0 looks and spends nothing, below 0 gives back. */
  readonly hits: number;
  /** False for limits in shadow or quota mode: their refusal does not refuse the request. */
  readonly blocks: boolean;
}

/**
 * For each hit, what its request has asked of the same counter so far, itself included: what would have to fit for the same
 * request to pass.
 */
export function askedTogether(hits: readonly Hit[]): readonly number[] {
  const asked = new Map<CounterKey, number>();
  return hits.map(({ key, hits: count }) => {
    const together = (asked.get(key) ?? 0) + count;
    asked.set(key, together);
    return together;
  });
}

/** A hit that the store could not decide in time. */
export interface Unavailable {
  readonly code: 'UNAVAILABLE';
  /** What was in the way, for logs; it names no credentials. */
  readonly reason: string;
}

/** Whether the store can be used, and if not, why: for health checks. */
export type StoreState = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/** Where counters live. Every store passes test/stores/conformance.ts. */
export interface Store {
  /** What one `apply` is atomic over: the whole request, or each counter by itself. */
  readonly atomic: 'request' | 'counter';
  /**
   * Applies one request's hits, in order, in one step as far as `atomic` says; decisions come back in the same order, and a key that appears
   * twice sees its own first hit. `Unavailable`, per hit, when the backend cannot answer within `timeoutMs`; never because a
   * limit is exceeded. Never rejects, never takes noticeably longer than `timeoutMs`.
   */
  apply(
    hits: readonly Hit[],
    how: { readonly spend: Spend; readonly timeoutMs: number },
  ): Promise<readonly (Decision | Unavailable)[]>;
  state(): StoreState;
  close(): Promise<void>;
}

/** The counters could not be reached in time. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}
