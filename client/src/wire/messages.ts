/** A request to send: entries of one or more descriptors, counted under `domain`. */
export interface LimitRequest {
  readonly domain: string;
  readonly descriptors: readonly (readonly Entry[])[];
  /** Negative: refunds hits. */
  readonly hits: number;
}
export type Entry = readonly [key: string, value: string];

/** The answer of a server to one request. */
export interface Reply {
  readonly code: ReplyCode;
  readonly statuses: readonly Status[];
  readonly headers: readonly ResponseHeader[];
  /** The body for a refused client. */
  readonly body?: string | undefined;
  /** `dynamic_metadata.weir`. */
  readonly detail: Readonly<Record<string, unknown>> | undefined;
}
export type ReplyCode = 'UNKNOWN' | 'OK' | 'OVER_LIMIT';

/** A header that the server adds to the response. */
export interface ResponseHeader {
  readonly key: string;
  readonly value: string;
}

export interface Status {
  readonly code: ReplyCode;
  readonly limit: StatusLimit | undefined;
  readonly remaining: number;
  /** Whole seconds on the wire. */
  readonly resetMs: number | undefined;
}
export interface StatusLimit {
  readonly name: string;
  readonly requestsPerUnit: number;
  /** Undefined: no unit matches the window. */
  readonly windowMs: number | undefined;
}

export const replyCodes: readonly ReplyCode[] = ['UNKNOWN', 'OK', 'OVER_LIMIT'];

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** RateLimitResponse.RateLimit.Unit by number; months and years have their nominal length. */
export const units: readonly (readonly [name: string, ms: number | undefined])[] = [
  ['UNKNOWN', undefined],
  ['SECOND', SECOND_MS],
  ['MINUTE', 60 * SECOND_MS],
  ['HOUR', 3_600 * SECOND_MS],
  ['DAY', DAY_MS],
  ['MONTH', 30 * DAY_MS],
  ['YEAR', 365 * DAY_MS],
  ['WEEK', 7 * DAY_MS],
];

/** The length of a window of `multiplier` units. */
export const windowLengthMs = (unitMs: number | undefined, multiplier: number): number | undefined =>
  unitMs === undefined ? undefined : unitMs * Math.max(multiplier, 1);

/** The answers of the methods of `weir.v1.Holds`. */
export interface HoldAnswers {
  readonly Acquire: SlotAnswer;
  readonly Renew: SlotAnswer;
  readonly Release: undefined;
  readonly Reserve: ReserveAnswer;
  readonly Commit: Commit;
}
export type HoldMethod = keyof HoldAnswers;

/** The request of a method. */
export interface HoldRequest {
  readonly request: LimitRequest;
  /** How long to wait for slots; only of Acquire. */
  readonly maxDelayMs?: number;
}

export interface SlotAnswer {
  readonly held: boolean;
  readonly ttlMs: number;
  readonly retryAfterMs: number | undefined;
}

export interface ReserveAnswer {
  readonly reserved: boolean;
  readonly hits: number;
  readonly ttlMs: number;
  readonly retryAfterMs: number | undefined;
}

/** The answer to a commit. */
export interface Commit {
  readonly outcome: CommitOutcome;
  readonly charged: number;
  /** Usage beyond the reservation. It is not charged with `on_overrun: clip`. */
  readonly overrun: number;
}

/**
 * The outcome of a commit. `late`: the reservation had expired; `unknown`: there was none under this id; in both cases
 * the hits are charged. `repeated`: it has been committed before, and nothing is charged.
 */
export type CommitOutcome = 'committed' | 'late' | 'unknown' | 'repeated';

/** By their numbers, which begin with 1. */
export const commitOutcomes: readonly CommitOutcome[] = ['committed', 'late', 'unknown', 'repeated'];

/** Whether the request refunds hits. It is sent only once: a repeated refund would raise the limit. */
export const isRefund = ({ hits }: LimitRequest): boolean => hits < 0;
