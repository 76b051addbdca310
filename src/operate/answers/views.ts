import { fields, listOf, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../base/shape.ts';
import { entries, placeFields, stopReason } from '../../edge/listing/shapes.ts';

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

/** A rule's most frequent descriptors. */
const shownTop = fields({ rule: text, total: whole, ...sampled, keys: shownKeys });
export type ShownTop = ValueOf<typeof shownTop>;

/** What tables of keys count: all hits, those refused, refused requests, and hits that shadow or quota mode let pass. */
const topKind = oneOf('hits', 'refusals', 'refused_requests', 'shadowed');
export type TopKind = ValueOf<typeof topKind>;

const top = fields({ by: topKind, windowSeconds: whole, rules: listOf(shownTop) });

export const viewAnswers = {
  'GET /api/v1/unmatched': unmatched,
  'GET /api/v1/top': top,
};
