import { fields, listOf, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../base/shape.ts';
import { entries, placeFields, stopReason } from '../../edge/listing/shapes.ts';
import { advice } from './advice.ts';
import { quotaReport } from './quotas.ts';
import { shareList, siteList } from './sites.ts';

const sampled = {
  /** The most hits that a key may have had without being listed. */
  unlistedAtMost: number,
  /** At least one hit in this many was counted; 1: every hit was. */
  countedOneIn: number,
  /** The probability with which each bound holds. */
  confidence: number,
};

/** A descriptor that met no rule, for operators. */
const unmatchedDescriptor = fields(
  {
    domain: text,
    entries,
    /** The number of requests with it in the last minute. */
    count: whole,
    /** The most by which `count` may be too high. */
    error: number,
    perSecond: number,
  },
  {
    /** The most by which `count` may be too low; absent: it is not. */
    atMostTooLowBy: number,
    /** Under the rules in force now. Absent: it would meet a rule now. */
    reason: stopReason,
    level: whole,
    why: text,
    nearest: listOf(
      fields(
        { rule: text },
        {
          ...placeFields,
          /** A descriptor that matches the rule; absent: its values are hidden. */
          descriptor: entries,
        },
      ),
    ),
  },
);
export type UnmatchedDescriptor = ValueOf<typeof unmatchedDescriptor>;

const unmatched = fields({
  windowSeconds: whole,
  /** All requests of the last minute, with and without a rule. */
  requests: whole,
  total: whole,
  ...sampled,
  descriptors: listOf(unmatchedDescriptor),
});

/** A frequent descriptor, and bounds on the error of its count. */
const shownKey = fields(
  { descriptor: text, hits: whole, atMostTooHighBy: number },
  {
    rule: text,
    /** Absent if values are hashed. */
    entries,
    /** The end of the descriptor was cut off, since it is too long. */
    cut: onlyTrue,
    /** Absent: the count is not too low. */
    atMostTooLowBy: number,
  },
);
export const shownKeys = listOf(shownKey);
export type ShownKey = ValueOf<typeof shownKey>;

const refusedClientFields = {
  rule: text,
  descriptor: text,
  /** Refused requests of the last minute. */
  requests: whole,
  atMostTooHighBy: number,
  /** The part of its hits in the last minute that was refused. */
  refusedShare: number,
  /** When it was refused for the first time, without five minutes in between in which it was not. */
  sinceMs: number,
  /** Refused requests per second over the last ten minutes, a step of ten seconds each, the oldest first. */
  recent: listOf(number),
};
/** A client, which a descriptor identifies, that a rule refuses. */
const refusedClient = fields(refusedClientFields, {
  /** Absent if values are hashed. */
  entries,
  /** The end of the descriptor was cut off, since it is too long. */
  cut: onlyTrue,
  /** Absent: the count is not too low. */
  atMostTooLowBy: number,
});
export type RefusedClient = ValueOf<typeof refusedClient>;

/** A rule's most frequent descriptors. */
const shownTop = fields({ rule: text, total: whole, ...sampled, keys: shownKeys });
export type ShownTop = ValueOf<typeof shownTop>;

/** What tables of keys count: all hits, those refused, refused requests, and hits that shadow or quota mode let pass. */
const topKind = oneOf('hits', 'refusals', 'refused_requests', 'shadowed');
export type TopKind = ValueOf<typeof topKind>;

const top = fields({ by: topKind, windowSeconds: whole, rules: listOf(shownTop) });

/** An address that continues although it is refused. */
const offender = fields({
  /** An IP address, or a block of addresses such as `2001:db8::/64`. */
  address: text,
  rule: text,
  domain: text,
  descriptor: text,
  /** Refused requests of the last minute, at least. */
  refused: whole,
  /** `10 per minute`: of several limits the one that admits most. */
  limit: text,
  /** Hits that the limit admits in a minute, or in its window if that is longer. */
  admits: number,
});
export type Offender = ValueOf<typeof offender>;

/** `more`: those beyond the requested number. */
const offenders = fields({ windowSeconds: whole, times: whole, offenders: listOf(offender), more: whole });
export type OffenderList = ValueOf<typeof offenders>;

export const viewAnswers = {
  'GET /api/v1/unmatched': unmatched,
  'GET /api/v1/top': top,
  'GET /api/v1/offenders': offenders,
  'GET /api/v1/quotas': quotaReport,
  'GET /api/v1/advice': advice,
  'GET /api/v1/sites': siteList,
  'GET /api/v1/sites/limits': shareList,
};
