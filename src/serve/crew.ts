import type { BreakerState } from '../backends/breaker.ts';
import type { Clock } from '../clock.ts';
import type { DenyCacheState } from '../ledger/refusals.ts';
import type { Logger } from '../observe/log.ts';
import type { Load } from '../observe/service-gauges.ts';
import type { Statistics } from '../observe/stats.ts';
import type { Settings } from '../settings.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import { type Answering, openAnswering } from './answering.ts';
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
  /** For each node of the store, how many processes have their circuit to it open. */
  circuits(): ReadonlyMap<string, number>;
  /** Hits that are leased and not used. */
  leased(): number;
  /** How busy all processes that answer are. */
  load(): Load;
  /** Workers that took the place of one that ended. */
  restarts(): number;
  /** Brings statistics, calls and cache up to date. */
  refresh(): Promise<void>;
}

/** @param states  of each process' circuits, by node */
export function openCircuits(states: readonly ReadonlyMap<string, BreakerState>[]): ReadonlyMap<string, number> {
  const open = new Map<string, number>();
  for (const ofProcess of states)
    for (const [node, state] of ofProcess) open.set(node, (open.get(node) ?? 0) + (state === 'closed' ? 0 : 1));
  return open;
}

export const NO_LOAD: Load = { inFlight: 0, held: 0, connections: 0, shedShare: 0 };

/** This process answers. */
export function createSingle(
  settings: Settings,
  basis: Basis,
  statistics: Statistics,
  clock: Clock,
  log: Logger,
): Crew {
  let answering: Answering | undefined;
  return {
    async open(onCall) {
      const called: OnCall = (method, status, elapsedMs) => {
        statistics.called(method);
        onCall(method, status, elapsedMs);
      };
      answering = await openAnswering(settings, basis, { ...statistics, called }, clock, log);
      return answering;
    },
    cache: () => basis.counters.ledger.refusals,
    leased: () => basis.counters.ledger.leases?.leased ?? 0,
    circuits: () => openCircuits([basis.counters.breakers.states()]),
    load: () => answering?.load() ?? NO_LOAD,
    restarts: () => 0,
    refresh: async () => {}, // they always are
  };
}
