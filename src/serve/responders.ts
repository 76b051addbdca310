import { type AgentQuestion, type NamedReply, type ReplyTo, replyTo } from '../admin/agent.ts';
import type { BreakerState } from '../backends/breaker.ts';
import type { Clock } from '../clock.ts';
import type { DenyCacheState } from '../ledger/refusals.ts';
import type { Logger } from '../observe/log.ts';
import type { Load } from '../observe/service-gauges.ts';
import type { Statistics } from '../observe/stats.ts';
import type { Settings } from '../settings.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import { type Answering, openAnswering } from './answering.ts';
import type { Core } from './core.ts';
import type { Servers } from './servers.ts';

/** The processes that answer requests: this one, or workers. */
export interface Responders {
  /**
   * @param onCall  called after each gRPC call; delayed for calls of workers
   * @throws CannotStart if an address cannot be bound, or certificates cannot be used
   */
  open(onCall: OnCall): Promise<Servers>;
  /** Queries every process that answers requests. */
  ask<Q extends AgentQuestion>(question: Q): Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /** The cache of refusals; undefined: disabled. */
  cache(): DenyCacheState | undefined;
  /** The number of processes with an open circuit, for each node of the store. */
  circuits(): ReadonlyMap<string, number>;
  /** Leased but unused hits. */
  leased(): number;
  /** The load of all these processes. */
  load(): Load;
  /** The number of replaced workers. */
  restarts(): number;
  /** Updates statistics, calls and cache. */
  refresh(): Promise<void>;
}

/** @param states  of the circuits of each process, by node */
export function openCircuits(states: readonly ReadonlyMap<string, BreakerState>[]): ReadonlyMap<string, number> {
  const open = new Map<string, number>();
  for (const ofProcess of states)
    for (const [node, state] of ofProcess) open.set(node, (open.get(node) ?? 0) + (state === 'closed' ? 0 : 1));
  return open;
}

export const NO_LOAD: Load = {
  ...{ inFlight: 0, held: 0, connections: 0, shedShare: 0 },
  ...{ callerBytes: 0, callerMaxBytes: 0 },
};

/** Answers requests in this process. */
export function createLocalResponder(
  settings: Settings,
  core: Core,
  statistics: Statistics,
  clock: Clock,
  log: Logger,
): Responders {
  let answering: Answering | undefined;
  return {
    async open(onCall) {
      const called: OnCall = (method, status, elapsedMs) => {
        statistics.called(method);
        onCall(method, status, elapsedMs);
      };
      answering = await openAnswering(settings, core, { ...statistics, called }, clock, log);
      return answering;
    },
    ask: async (question) =>
      answering ? [{ process: 'this process', reply: replyTo(question, await answering.agent.ask(question)) }] : [],
    cache: () => core.counters.ledger.refusals,
    leased: () => core.counters.ledger.leases?.leased ?? 0,
    circuits: () => openCircuits([core.counters.breakers.states()]),
    load: () => answering?.load() ?? NO_LOAD,
    restarts: () => 0,
    refresh: async () => {}, // always up to date
  };
}
