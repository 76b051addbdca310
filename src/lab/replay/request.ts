import type { RateLimitRequest } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';

export type ReplayedCode = 'OK' | 'OVER_LIMIT';

/** A recorded request, as every reader yields it. */
export interface RecordedRequest {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly request: RateLimitRequest;
  readonly answer?: RecordedAnswer | undefined;
  /** The outcome that the operator expects, from a column with labels. */
  readonly label?: 'allow' | 'refuse' | undefined;
  /** The time left until the caller's deadline; absent: there was no deadline. */
  readonly timeoutMs?: number | undefined;
  /** Operators' overrides for single descriptors from this request on; absent: unchanged. */
  readonly overrides?: readonly StandingOverride[];
  /** If values are hashed: the path of the rule that each descriptor matched before; absent: no value is hashed. */
  readonly hashedBy?: readonly (string | undefined)[] | undefined;
}

/** The service's answer when the request was recorded. */
interface RecordedAnswer {
  readonly code: ReplayedCode;
  /** One per descriptor; absent: they were not recorded. */
  readonly descriptors?: readonly RecordedDescriptor[];
}

/** The service's recorded answer to one descriptor, as in the protocol. */
interface RecordedDescriptor {
  readonly code: ReplayedCode;
  /** 0: no rule matched; 4,294,967,295: the rule is unlimited. */
  readonly remaining: number;
}

/** The answer of one rule set to one descriptor. */
export interface ReplayedDescriptor {
  /** The rule's path; absent: nothing matched. */
  readonly rule?: string;
  /** The counter's key; absent: nothing was counted. */
  readonly key?: string | undefined;
  readonly code: ReplayedCode;
  /** As in the protocol: see `RecordedDescriptor`. */
  readonly remaining?: number;
  /** Admitted hits per window; absent: no limit applies. */
  readonly limit?: number;
  readonly windowMs?: number;
  /** The limit refused, but is in shadow mode. */
  readonly wouldRefuse?: true;
}

/** The answer of one rule set to one request. */
export interface ReplayedAnswer {
  readonly code: ReplayedCode;
  /** One per descriptor, in the order of the request. */
  readonly descriptors: readonly ReplayedDescriptor[];
}

/**
 * Receives each request, in chronological order, with the answer under the rules and, if there are rules to compare
 * with, the answer under those.
 */
export interface ReplayObserver {
  observe(recorded: RecordedRequest, answer: ReplayedAnswer, against?: ReplayedAnswer): void;
}

/** Recorded traffic in batches, since one step of asynchronous iteration costs as much as a decision. */
export type RecordedTraffic = AsyncIterable<readonly RecordedRequest[]>;
