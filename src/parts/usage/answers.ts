import { fields, listOf, mapOf, oneOf, text, time, type ValueOf, whole } from '../../base/shape.ts';

const usage = fields(
  {
    /** Whole hours; `to` is excluded. */
    from: time,
    to: time,
    by: oneOf('domain', 'rule', 'key'),
    per: oneOf('total', 'day', 'hour'),
    /** Hits of all rows without a currency. */
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
          /** Of a budget: `hits` are billionths of this currency. */
          currency: text,
        },
      ),
    ),
  },
  {
    /** `after` of the next page. */
    next: text,
    /** What budgets have spent, in billionths, by currency. */
    spent: mapOf(whole),
  },
);
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
