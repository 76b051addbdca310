import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Statistics } from '../observe/stats.ts';
import type { Settings } from '../settings.ts';
import type { DenyCacheState } from '../stores/deny-cache.ts';
import type { OnCall } from '../transport/grpc-js.ts';
import { openAnswering } from './answering.ts';
import type { Basis } from './basis.ts';
import type { Servers } from './servers.ts';

/** Who answers: this process, or workers. */
export interface Crew {
  /**
   * @param onCall  told of each call of gRPC, where workers answer a little later
   * @throws CannotStart  an address that cannot be bound, certificates that cannot be used
   */
  open(onCall: OnCall): Promise<Servers>;
  /** What is known to be over its limit; undefined where that is not kept. */
  cache(): DenyCacheState | undefined;
  /** Brings statistics, calls and cache up to date. */
  refresh(): Promise<void>;
}

/** This process answers. */
export function createSingle(
  settings: Settings,
  basis: Basis,
  statistics: Statistics,
  clock: Clock,
  log: Logger,
): Crew {
  return {
    open(onCall) {
      const called: OnCall = (method, status, elapsedMs) => {
        statistics.called(method);
        onCall(method, status, elapsedMs);
      };
      return openAnswering(settings, basis, { ...statistics, called }, clock, log);
    },
    cache: () => basis.counters.cache,
    refresh: async () => {}, // they always are
  };
}
