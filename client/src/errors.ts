import type { Decision } from './decision.ts';

/** The request exceeds a limit: thrown by `require` and `withSlot`. */
export class LimitExceeded extends Error {
  override readonly name = 'LimitExceeded';
  readonly domain: string;
  /** Undefined for slots. */
  readonly decision: Decision | undefined;
  /** Until the request could pass; undefined: unknown. */
  readonly retryAfterMs: number | undefined;

  constructor(domain: string, decision: Decision | undefined, retryAfterMs = decision?.retryAfterMs) {
    const rule = decision?.rule === undefined ? '' : ` of ${decision.rule}`;
    super(`the limit${rule} in the domain ${domain} is exceeded`);
    this.domain = domain;
    this.decision = decision;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Why there is no answer: `unavailable` (no connection, or the service failed), `timeout`, `overloaded` (the service
 * has too many calls, and did not count this one), `invalid` (the service considers the request invalid), `rejected`
 * (the service refuses the call for another reason, such as a missing permission), `unimplemented` (the server does not
 * have the method), `breaker_open` (nothing was sent), or `closed` (by `close()`).
 */
export type FailureKind =
  | 'unavailable'
  | 'timeout'
  | 'overloaded'
  | 'invalid'
  | 'rejected'
  | 'unimplemented'
  | 'breaker_open'
  | 'closed';

/** The service has not answered. Thrown by `require` and `withSlot`; elsewhere it is the `error` of a decision. */
export class WeirUnavailable extends Error {
  override readonly name = 'WeirUnavailable';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** The kind of failure by gRPC status; other codes are `unavailable`. */
const kinds: Readonly<Record<number, FailureKind>> = {
  3: 'invalid',
  4: 'timeout',
  7: 'rejected',
  8: 'overloaded',
  9: 'rejected',
  12: 'unimplemented',
  16: 'rejected',
};

/** Converts a gRPC status to an error for the caller. @internal */
export const toFailure = (code: number, message: string, cause?: Error): WeirUnavailable =>
  new WeirUnavailable(kinds[code] ?? 'unavailable', message, { cause });
