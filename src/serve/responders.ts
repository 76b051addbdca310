import { type AgentQuestion, type NamedReply, type ReplyTo, replyTo } from '../admin/agent.ts';
import type { BreakerState } from '../backends/breaker.ts';
import type { DenyCacheState } from '../ledger/refusals.ts';
import type { Load } from '../observe/service-gauges.ts';
import type { Statistics } from '../observe/stats.ts';
import type { Settings } from '../settings.ts';
import type { OnCallFinished } from '../transport/grpc-server.ts';
import type { Core } from './core.ts';
import type { Part, ProcessContext } from './parts.ts';
import { openResponder } from './responder.ts';
import type { Servers } from './servers.ts';

/** The processes that answer requests: this one, or workers. */
export interface Responders extends Part {
  /**
   * Opens the gRPC and HTTP servers.
   *
   * @param onCallFinished  called after each gRPC call; delayed for calls of workers
   * @throws CannotStart if an address cannot be bound, or certificates cannot be used
   */
  listen(onCallFinished: OnCallFinished): Promise<Servers>;
  /** Queries every process that answers requests. */
  ask<Q extends AgentQuestion>(question: Q): Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /** The cache of refusals; undefined: disabled. */
  cache(): DenyCacheState | undefined;
  /** The number of processes with an open circuit, for each node of the store. */
  openCircuits(): ReadonlyMap<string, number>;
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
export function countOpen(states: readonly ReadonlyMap<string, BreakerState>[]): ReadonlyMap<string, number> {
  const open = new Map<string, number>();
  for (const ofProcess of states)
    for (const [node, state] of ofProcess) open.set(node, (open.get(node) ?? 0) + (state === 'closed' ? 0 : 1));
  return open;
}

/** Answers requests in this process. */
export async function openLocalResponder(
  settings: Settings,
  core: Core,
  statistics: Statistics,
  context: ProcessContext,
): Promise<Responders> {
  const { agent, load, listen, close } = await openResponder(settings, core, statistics, context);
  const { ledger, breakers } = core.store;
  return {
    ...{ load, close },
    listen: (onCallFinished) =>
      listen((method, status, elapsedMs) => {
        statistics.onCallFinished(method);
        onCallFinished(method, status, elapsedMs);
      }),
    ask: async (question) => [{ process: 'this process', reply: replyTo(question, await agent.ask(question)) }],
    cache: () => ledger.refusals,
    leased: () => ledger.leases?.leased ?? 0,
    openCircuits: () => countOpen([breakers.states()]),
    restarts: () => 0,
    refresh: async () => {}, // always up to date
  };
}
