import type { Clock, Monotonic } from '../../base/clock.ts';
import type { watchLateness } from '../backends/lateness.ts';
import type { MemoryBackend } from '../backends/memory/backend.ts';
import type { Records } from '../backends/records.ts';
import type { UsageSource } from '../backends/usage.ts';
import type { Backends } from '../ledger/ledger-backends.ts';
import type { StoreEvent } from './options.ts';

/** The dependencies of backends. */
export interface BackendContext {
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Stores with a clock of their own decide on `clock` instead. */
  readonly isOnClock?: boolean;
  readonly lateness: ReturnType<typeof watchLateness>;
  readonly onStoreEvent: (event: StoreEvent) => void;
}

/** Open backends, and their description. */
export interface OpenBackends {
  /** The counters, if they are in memory. */
  readonly memory?: MemoryBackend;
  readonly backends: Backends;
  /** For messages: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
  /** Stores operators' changes; undefined if the store cannot. */
  readonly records?: Records;
  /** The usage of the counters in each store; absent if none is counted. */
  readonly usage?: readonly UsageSource[] | undefined;
  /** The circuits to the nodes of the store, if it has some. */
  readonly circuits?: () => ReadonlyMap<string, CircuitState>;
  /** Runs scripts of parts in the Redis of the counters. */
  readonly runScript?: RunScript;
}

/** A node's circuit: `closed` passes calls, `open` fails them at once, `half_open` lets one call test the node. */
export type CircuitState = 'closed' | 'open' | 'half_open';

/** Runs a script on one key. @throws StoreUnavailable */
export type RunScript = (text: string, key: string, args: readonly (string | number)[]) => Promise<unknown>;
