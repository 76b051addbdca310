import type { Environment } from '../../../src/settings/near-misses.ts';

/** Something that befalls the Redis in which the service counts. */
export interface Fault {
  /** What happens, in a few words: the name of a test, and of a row of the table. */
  readonly event: string;
  /** How often counters are lost at the most: each time, each of them may admit its limit once more. */
  readonly losses: number;
  /** Calls fail meanwhile; where false, all could succeed. */
  readonly isFelt: boolean;
  /** Whether the counters are under envoyproxy/ratelimit's keys. */
  readonly areShared?: boolean;
  /** Starts the servers that it befalls, all well at first. */
  begin(): Promise<Victim>;
}

export interface Victim {
  /** How the service finds its counters. */
  readonly env: Environment;
  /** Does the harm and puts it right; resolves as soon as Redis, for its part, could count again. */
  strike(): Promise<void>;
  stop(): Promise<void>;
}
