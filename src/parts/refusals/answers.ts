import { fields, listOf, number, oneOf, onlyTrue, orNull, text, type ValueOf, whole } from '../../base/shape.ts';
import { entries, placeFields } from '../../edge/listing/shapes.ts';
import { code, source, wouldRefuse } from '../lab/answers/explain.ts';

/** A refused descriptor, explained by its own decision. */
const refusedDescriptor = fields(
  {
    /** Without ids of the request. */
    entries,
    outcome: oneOf('limited', 'unlimited', 'exempt', 'no_rule', 'no_domain', 'invalid_request_limit'),
  },
  {
    ...placeFields,
    hits: whole,
    rule: text,
    /** The limit that the caller was shown. */
    limit: text,
    name: text,
    code,
    source,
    /** Hits used before, the request's, and what the limit admits: `5 + 1 = 6 > 5`. */
    arithmetic: text,
    remaining: whole,
    /** Of a budget: the counts are billionths of this currency. */
    currency: text,
    /** How long until this limit alone would admit it; null: never. */
    retryAfterMs: orNull(number),
    /** Whether the limit is in shadow mode, or in quota mode, in which it refuses only together with others. */
    shadow: onlyTrue,
    quota: onlyTrue,
    /** The request is in the limit's soft part. */
    soft: onlyTrue,
  },
);
export type RefusedDescriptor = ValueOf<typeof refusedDescriptor>;

/** A request that was refused, or would have been, explained by its own decisions. */
const sampledRefusal = fields(
  {
    /** Milliseconds since the epoch. */
    atMs: number,
    domain: text,
    /** How long until the request could pass; null: never. */
    passesInMs: orNull(number),
    descriptors: listOf(refusedDescriptor),
  },
  {
    /** The value of the entry with `not_counted: trace`, else of that with `hold`. */
    requestId: text,
    wouldRefuse,
  },
);
export type SampledRefusal = ValueOf<typeof sampledRefusal>;

/** A page of the refusals that processes keep. */
const refusalPage = fields(
  {
    /** The newest first. */
    refusals: listOf(sampledRefusal),
    /** Refusals that were not kept, since there were too many in a second. */
    dropped: whole,
    /** Kept refusals beyond `count`: older ones without `since`; else newer ones, which are on the next page. */
    more: whole,
    /** Refusals after `since` that newer ones replaced before they were read. */
    lost: whole,
    /** `since` of the next page. */
    next: text,
  },
  {
    /** The part of `dropped` after `since`, in processes that it names; absent without `since`. */
    droppedSince: whole,
  },
);
export type RefusalPage = ValueOf<typeof refusalPage>;

export const refusalAnswers = { 'GET /api/v1/refusals': refusalPage };
