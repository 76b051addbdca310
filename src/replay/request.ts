import type { RateLimitRequest } from '../decide.ts';
import type { StandingOverride } from '../overrides.ts';

export type ReplayedCode = 'OK' | 'OVER_LIMIT';

/** One request of recorded traffic, as any reader yields it. */
export interface RecordedRequest {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly request: RateLimitRequest;
  readonly answer?: RecordedAnswer | undefined;
  /** From a labelled column: what the operator says should have happened. */
  readonly label?: 'allow' | 'refuse' | undefined;
  /** What was left of the caller's deadline; absent: it had none. */
  readonly timeoutMs?: number | undefined;
  /** What operators had set for single descriptors, from this request on; absent: as before. */
  readonly overrides?: readonly StandingOverride[];
  /** Some values are hashes, and these are the rules that matched, one a descriptor; absent: no value is. */
  readonly hashedBy?: readonly (string | undefined)[] | undefined;
}

/** What a service answered when the request was recorded. */
export interface RecordedAnswer {
  readonly code: ReplayedCode;
  /** One a descriptor, where the recording says. */
  readonly descriptors?: readonly RecordedDescriptor[];
}

/** What a service answered to one descriptor, as the protocol says it. */
export interface RecordedDescriptor {
  readonly code: ReplayedCode;
  /** 0 where nothing matched; 4,294,967,295 where the rule is unlimited. */
  readonly remaining: number;
}

/** What one rule set answered to one descriptor. */
export interface ReplayedDescriptor {
  /** The rule's path; absent: nothing matched. */
  readonly rule?: string;
  /** The counter's key; absent: nothing was counted. */
  readonly key?: string | undefined;
  readonly code: ReplayedCode;
  /** As the protocol says it: see `RecordedDescriptor`. */
  readonly remaining?: number;
  /** Hits that pass in a window; absent: no limit applies. */
  readonly limit?: number;
  readonly windowMs?: number;
  /** The limit refused, but is in shadow mode. */
  readonly wouldRefuse?: true;
}

/** What one rule set answered to one request. */
export interface ReplayedAnswer {
  readonly code: ReplayedCode;
  /** One a descriptor, in the request's order. */
  readonly descriptors: readonly ReplayedDescriptor[];
}

/**
 * Receives each request with the answers of the rules and, with other rules to compare, of these too, in order of
 * time.
 */
export interface ReplayObserver {
  observe(recorded: RecordedRequest, answer: ReplayedAnswer, against?: ReplayedAnswer): void;
}

/** Recorded traffic in batches, since one step of asynchronous iteration costs as much as a decision. */
export type RecordedTraffic = AsyncIterable<readonly RecordedRequest[]>;
