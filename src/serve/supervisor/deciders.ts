import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { DeciderQuestion, DeciderReply, Listening, SpreadMessage, StartedDecider } from '../link/messages.ts';
import type { CannotStart } from '../parts/start-up.ts';

/** A decider that listens. */
export type ListeningDecider = Pick<StartedDecider, 'id' | 'name' | 'counters'>;

/** Called by deciders. */
export interface DeciderEvents {
  readonly onListening: (decider: ListeningDecider) => void;
  /** The store could not be reached within the time that the settings give it. */
  readonly onNeverReached: (reason: CannotStart) => void;
  readonly onEnded: (id: number) => void;
  readonly onReply: (id: number, message: DeciderReply) => void;
}

/** The deciders of the service, as its supervisor sees them. */
export interface DeciderProcesses {
  /**
   * Opens the servers, once the first rules have been spread.
   *
   * @throws CannotStart
   */
  listen(): Promise<Listening>;
  listening(): Iterable<ListeningDecider>;
  /** Sends a message to every decider. */
  spread(message: SpreadMessage): void;
  send(id: number, message: DeciderQuestion): void;
  /** The number of deciders that replaced one that ended. */
  restarts(): number;
  /** Lets the deciders finish the calls in flight, and send their last reports. */
  close(): Promise<void>;
}

/** What a worker that starts needs. */
export interface KeptState {
  /** The current rules and the candidate, as they were spread, and whether operators are served. */
  messages(): Iterable<SpreadMessage>;
  /** The overrides; undefined if none have been set. */
  overrides(): readonly StandingOverride[] | undefined;
}
