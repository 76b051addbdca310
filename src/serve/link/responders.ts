import type { AgentQuestion, NamedReply, ReplyTo } from '../../operate/admin/agent.ts';
import type { ResponderFacts } from '../../operate/console/health-facts.ts';

/** The deciders, as the parts that serve operators use them. */
export interface Responders extends ResponderFacts {
  /** Asks every decider; those that do not reply in time are left out. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /**
   * Asks one decider.
   *
   * @param moreMs  how long the answer takes by itself
   * @returns undefined  none replied in time
   */
  readonly askOne: <Q extends AgentQuestion>(question: Q, moreMs?: number) => Promise<ReplyTo<Q> | undefined>;
  /** Whether there is a decider, and every one can decide requests. */
  isReady(): boolean;
  /** Updates statistics, calls and cache. */
  refresh(): Promise<void>;
}
