import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { BreakerState } from '../../engine/backends/breaker.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from '../../operate/admin/agent.ts';
import type { ResponderFacts } from '../../operate/console/health-facts.ts';
import type { Part } from '../parts/start-up.ts';
import type { Listening } from './messages.ts';

/** The processes that answer requests: this one, or workers. */
export interface Responders extends Part, ResponderFacts {
  /**
   * Opens the gRPC and HTTP servers.
   *
   * @param onCallFinished  called after each gRPC call; delayed for calls of workers
   * @throws CannotStart if an address cannot be bound, or certificates cannot be used
   */
  listen(onCallFinished: OnCallFinished): Promise<Listening & Part>;
  /** Queries every process that answers requests. */
  ask<Q extends AgentQuestion>(question: Q): Promise<readonly NamedReply<ReplyTo<Q>>[]>;
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
