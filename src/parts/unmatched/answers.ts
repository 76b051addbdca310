import { fields, listOf, number, text, type ValueOf, whole } from '../../base/shape.ts';
import { entries, placeFields, stopReason } from '../../edge/listing/shapes.ts';
import { sampled } from '../lab/sketches/shapes.ts';

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

export const unmatchedAnswers = { 'GET /api/v1/unmatched': unmatched };
