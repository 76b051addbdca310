import type { RateLimitRequest } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { LineDescriptor, RecordedCode } from '../lab/record/format.ts';

export type ReplayedCode = RecordedCode;

/** A recorded request, as every reader yields it. */
export interface RecordedRequest {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly request: RateLimitRequest;
  /** What a proxy sends with the status of the response, unless the request is refused. */
  readonly report?: RateLimitRequest | undefined;
  readonly answer?: RecordedAnswer | undefined;
  /** Outcome that the operator expects, from a column with labels. */
  readonly label?: 'allow' | 'refuse' | undefined;
  /** Time left until the caller's deadline; absent without one. */
  readonly timeoutMs?: number | undefined;
  /** Operators' overrides for single descriptors from this request on; absent if unchanged. */
  readonly overrides?: readonly StandingOverride[];
  /** Path of the rule that each descriptor matched before values were hashed; absent if none is. */
  readonly hashedBy?: readonly (string | undefined)[] | undefined;
}

/** The service's answer when the request was recorded. */
interface RecordedAnswer {
  readonly code: ReplayedCode;
  /** One per descriptor; absent if they were not recorded. */
  readonly descriptors?: readonly LineDescriptor[];
}

/** The answer of one rule set to one descriptor. */
export interface ReplayedDescriptor {
  /** Path of the rule; absent if none matched. */
  readonly rule?: string;
  /** Key of the counter; absent if nothing was counted. */
  readonly key?: string | undefined;
  readonly code: ReplayedCode;
  readonly remaining?: number;
  /** Admitted hits per window; absent without a limit of the rule, as under an override. */
  readonly limit?: number;
  readonly windowMs?: number;
  /** What the limit counts of the request: hits, or billionths of its currency for a budget. */
  readonly hits?: number;
  readonly currency?: string;
  /** Whether the limit refused in shadow mode. */
  readonly wouldRefuse?: true;
  /** The answer of another rule, or of a requirement, that decides beside it. */
  readonly beside?: ReplayedDescriptor;
}

/** The answers of all rules that decide on a descriptor. */
export function* byRule(
  first: ReplayedDescriptor | undefined,
): Iterable<ReplayedDescriptor & { readonly rule: string }> {
  for (let one = first; one; one = one.beside) if (hasRule(one)) yield one;
}

const hasRule = (one: ReplayedDescriptor): one is ReplayedDescriptor & { readonly rule: string } =>
  one.rule !== undefined;

/** The answer of one rule set to one request. */
export interface ReplayedAnswer {
  readonly code: ReplayedCode;
  /** One per descriptor, in the order of the request. */
  readonly descriptors: readonly ReplayedDescriptor[];
}

/**
 * Receives each request in chronological order, with the answer under the rules and, if there are others to compare
 * with, under those.
 */
export interface ReplayObserver {
  observe(recorded: RecordedRequest, answer: ReplayedAnswer, against?: ReplayedAnswer): void;
}

/** Recorded traffic in batches, since one step of asynchronous iteration costs as much as a decision. */
export type RecordedTraffic = AsyncIterable<readonly RecordedRequest[]>;
