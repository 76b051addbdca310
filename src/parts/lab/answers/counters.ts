import { fields, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../../base/shape.ts';
import { moves } from '../../../engine/holds/reports.ts';

/** How much of a counter is used, in whole hits. */
export const stateFields = { used: whole, remaining: whole, resetsInMs: number };
/** What is known of some counters only. */
export const holdFields = {
  /** Age of the request in flight, or of the reservation, that expires first. */
  oldestMs: number,
  /** Reserved hits, which are part of those used, and the number of requests that hold them. */
  onHold: whole,
  open: whole,
  /** Of a limit with a penalty: the time until its block ends. */
  blockedMs: number,
  /** Of a budget: the counts are billionths of this currency. */
  currency: text,
  /** A limit that adapts, in slots; mean hold times in the last window and without a queue, 0 if not measured. */
  adapted: fields({
    limit: whole,
    holdMs: number,
    baselineMs: number,
    move: oneOf(...moves),
    /** Why the limit changed last, or did not. */
    why: text,
  }),
  /** What a child has of the counter of a shared limit, in the current second, or the window of the limit. */
  share: fields({
    used: whole,
    /** Used beyond its own reservation. */
    borrowed: whole,
    /** Left of its reservation. */
    unspent: whole,
    /** Unspent reservations of active siblings. */
    held: whole,
  }),
};

/** A child of a shared limit, in the current second; of shared slots now. */
export const sharedChild = fields(
  {
    /** Its entry. */
    key: text,
    value: text,
    used: whole,
    borrowed: whole,
    unspent: whole,
    /** The part of its reservation that it leaves to others: hits per second, or slots. */
    lends: whole,
    reserve: whole,
    weight: whole,
  },
  {
    ceiling: whole,
    /** What it uses are slots. */
    slots: onlyTrue,
    /** Its use is that of the current window: `second`, `minute`; absent for slots. */
    window: text,
    /** It has had no hits for a second or more. */
    idle: onlyTrue,
    /** It is the descriptor's own child, or one above that. */
    own: onlyTrue,
  },
);
export type SharedChild = ValueOf<typeof sharedChild>;

/** The state of a counter, in whole hits. */
export const counterState = fields(stateFields, holdFields);
export type CounterState = ValueOf<typeof counterState>;
