/** Knows how late the timers of this process are while calls to a store are in flight. */
export interface Lateness {
  /** A call begins. */
  began(): void;
  /** It has ended, one way or another. */
  ended(): void;
  /** The largest lag of the last 50 milliseconds of calls in flight. */
  latenessMs(): number;
}

/** Never late. */
export const PUNCTUAL: Lateness = { began: () => {}, ended: () => {}, latenessMs: () => 0 };
