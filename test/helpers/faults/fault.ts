import type { Environment } from '../../../src/settings/near-misses.ts';

/** A fault of the service's Redis. */
export interface Fault {
  /** What happens, in a few words: the title of a test and of a row of the table. */
  readonly event: string;
  /** The most times that counters may be lost. After each loss, each counter may admit its limit once more. */
  readonly losses: number;
  /** Whether calls must fail meanwhile; false: all may succeed. */
  readonly isFelt: boolean;
  /** Whether the counters are under envoyproxy/ratelimit's keys. */
  readonly areShared?: boolean;
  /** Starts the servers, healthy at first. */
  begin(): Promise<Victim>;
}

export interface Victim {
  /** The service's settings for its counters. */
  readonly env: Environment;
  /**
   * Causes the fault and ends it; resolves as soon as Redis itself could count again.
   *
   * @param felt  resolves when a call has failed since: until then, a fault that calls must feel lasts
   */
  strike(felt: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}
