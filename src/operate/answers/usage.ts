import { fields, listOf, oneOf, text, time, type ValueOf, whole } from '../../base/shape.ts';

const usage = fields({
  /** Whole hours; `to` is excluded. */
  from: time,
  to: time,
  by: oneOf('domain', 'rule', 'key'),
  per: oneOf('total', 'day', 'hour'),
  /** Hits of all rows. */
  hits: whole,
  /** Rows beyond `count`. */
  more: whole,
  rows: listOf(
    fields(
      { domain: text, hits: whole },
      {
        /** Empty: no rule had the counter when its usage was collected. */
        rule: text,
        /** `user=alice`; empty: the sum of counters that were too many. */
        key: text,
        /** When the day or hour begins. */
        at: time,
      },
    ),
  ),
});
export type UsageAnswer = ValueOf<typeof usage>;

const forgotten = fields({
  domain: text,
  descriptor: text,
  /** Deleted rows: one for each rule and hour. */
  rows: whole,
  /** Usage that was counted before may be kept until this time has passed: then forget it again. */
  againAfterMs: whole,
});
export type ForgottenUsage = ValueOf<typeof forgotten>;

export const usageAnswers = { 'GET /api/v1/usage': usage, 'POST /api/v1/usage/forget': forgotten };
