import { fields, listOf, number, onlyTrue, text, type ValueOf, whole } from '../../../base/shape.ts';
import { entries } from '../../../edge/listing/shapes.ts';

/** How exact the counts of a list are. */
export const sampled = {
  /** The most hits that a key may have had without being listed. */
  unlistedAtMost: number,
  /** At least one hit in this many was counted; 1: every hit was. */
  countedOneIn: number,
  /** The probability with which each bound holds. */
  confidence: number,
};

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
export const shownTop = fields({ rule: text, total: whole, ...sampled, keys: shownKeys });
export type ShownTop = ValueOf<typeof shownTop>;

/** What tables of keys count: all hits, those refused, refused requests, and hits that shadow or quota mode let pass. */
export const topKinds = ['hits', 'refusals', 'refused_requests', 'shadowed'] as const;
export type TopKind = (typeof topKinds)[number];
