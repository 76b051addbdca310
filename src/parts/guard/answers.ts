import { fields, listOf, number, text, type ValueOf, whole } from '../../base/shape.ts';

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

export const offenderAnswers = { 'GET /api/v1/offenders': offenders };
