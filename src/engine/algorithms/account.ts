/** What a counter contains, in the terms of its algorithm, as operators read it. */
export interface Account {
  /** The terms of the sum: `7 × 0.35`, `3`. */
  readonly terms: readonly string[];
  readonly used: number;
  /** Where the capacity comes from. */
  readonly note?: string;
  /** Room beyond the capacity for requests that may be delayed. */
  readonly mayOwe?: number;
}

/** The state of a counter, for drawing. */
export type Drawing =
  /** A bucket that fills as hits are spent. */
  | { readonly kind: 'level' }
  /** Parts of the window, the oldest first, each with the hits that still count. */
  | { readonly kind: 'parts'; readonly parts: readonly number[] }
  /** The newest hits in the window, each as its age in milliseconds and its number, the oldest first. */
  | { readonly kind: 'ticks'; readonly windowMs: number; readonly ticks: readonly (readonly [number, number])[] }
  /** Requests in flight. */
  | { readonly kind: 'slots'; readonly ttlMs: number }
  /** A window that starts over when it ends. */
  | { readonly kind: 'window'; readonly windowMs: number };
