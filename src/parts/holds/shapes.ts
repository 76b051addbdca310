import { fields, flag, oneOf, text, type ValueOf, whole } from '../../base/shape.ts';
import { rateLimitRequest } from '../../edge/wire/shapes.ts';

/** `1.5s`. */
const duration = { ...text, description: 'A duration in seconds, such as `1.5s`.' };

/** The body of the methods of `weir.v1.Holds` as JSON. */
const holdRequest = fields({ request: rateLimitRequest });
const acquireRequest = fields({ request: rateLimitRequest }, { maxDelay: duration });

/** Their answers. */
const holdAnswer = fields({ held: flag }, { ttl: duration, retryAfter: duration });
const releaseAnswer = fields({});
const reserveAnswer = fields({ reserved: flag, hits: whole }, { ttl: duration, retryAfter: duration });
const commitAnswer = fields({
  outcome: oneOf('COMMITTED', 'LATE', 'UNKNOWN', 'REPEATED'),
  charged: whole,
  overrun: whole,
});
export type HoldAnswerJson = Partial<
  ValueOf<typeof holdAnswer> & ValueOf<typeof reserveAnswer> & ValueOf<typeof commitAnswer>
>;

/** The shapes by the names of their types in generated clients. */
export const holdShapes = {
  HoldRequest: holdRequest,
  AcquireRequest: acquireRequest,
  HoldAnswer: holdAnswer,
  ReleaseAnswer: releaseAnswer,
  ReserveAnswer: reserveAnswer,
  CommitAnswer: commitAnswer,
} as const;

/** The operations for callers without gRPC. */
export const holdPaths = {
  '/holds/acquire': {
    summary: 'takes slots of limits with `algorithm: in_flight`, or renews them; may wait for them',
    body: acquireRequest,
    answer: holdAnswer,
    refusal: 'there are not as many slots',
  },
  '/holds/renew': {
    summary: 'renews slots without waiting',
    body: holdRequest,
    answer: holdAnswer,
    refusal: 'the slots have expired, and there are not as many',
  },
  '/holds/release': { summary: 'releases slots', body: holdRequest, answer: releaseAnswer },
  '/holds/reserve': {
    summary: 'reserves hits of limits with `reserve`',
    body: holdRequest,
    answer: reserveAnswer,
    refusal: 'there are not as many hits left',
  },
  '/holds/commit': {
    summary: 'charges the hits that a reservation has used, once, and frees the rest',
    body: holdRequest,
    answer: commitAnswer,
  },
};
