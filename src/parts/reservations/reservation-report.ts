import { type RateLimit, rateFor } from '../../engine/algorithms/index.ts';
import { type Decision, type Outcome, peekedHits, type State } from '../../engine/algorithms/limit.ts';
import { commitEvents, type Reports, type ReservationEvent, reservationEvents } from '../../engine/holds/reports.ts';

/** Numbers of a report before those of the inner counter. */
export const OWN_NUMBERS = 12;

/** Whether the reservations of all requests end with a window, whose start is the first number of a counter's state. */
export function endsTogether(inner: RateLimit): boolean {
  const windows = rateFor(inner).windows?.(inner);
  return windows !== undefined && windows !== 'first_hit';
}

/**
 * The decision about a step of a reservation.
 *
 * @param inner  the limit that counts charged hits
 */
export function describeReservation(
  inner: RateLimit,
  numbers: State,
  nowMs: number,
  { hits, accepted, charged }: Outcome,
): Decision & Reports {
  const row = rateFor(inner);
  const [place = 0, reserved = 0, used = 0, overrun = 0, held = 0, open = 0, firstMs = 0, lastMs = 0, ...last] =
    numbers;
  const [freeMs = 0, lapsed = 0, lapses = 0, usage = 0] = last;
  const event: ReservationEvent = reservationEvents[place] ?? 'peeked';
  const charges = commitEvents.has(event);
  const counted = event === 'given_back' || event === 'refused_alone' ? hits : charges ? used : 0;
  const own = row.describe(inner, numbers.slice(OWN_NUMBERS), nowMs, {
    hits: counted,
    accepted: event !== 'refused_alone',
    charged: charges && charged ? 'regardless' : event === 'given_back' && charged,
  });
  const isReserved = event === 'reserved' && charged !== false;
  const endsWithWindow = endsTogether(inner);
  /**
   * The time until the counter has room for the request beside all hits on hold; if these end with the window, until
   * its end.
   */
  const besideMs = (): number => {
    if (endsWithWindow) return own.durationUntilResetMs;
    const required = hits === 0 ? peekedHits(row) : hits;
    const beside = { hits: required + held, accepted: false, charged: false } as const;
    return row.describe(inner, numbers.slice(OWN_NUMBERS), nowMs, beside).retryAfterMs;
  };
  return {
    code: accepted ? 'OK' : 'OVER_LIMIT',
    hitsBefore: own.hitsBefore + held - (isReserved ? reserved : 0),
    limitRemaining: Math.max(own.limitRemaining - held, 0),
    durationUntilResetMs: endsWithWindow
      ? own.durationUntilResetMs
      : Math.max(own.durationUntilResetMs, lastMs - nowMs),
    retryAfterMs: accepted ? 0 : waitMs(event, freeMs - nowMs, { aloneMs: own.retryAfterMs, besideMs: besideMs() }),
    delayMs: 0,
    soft: isReserved && inner.soft > 0 && held > own.limitRemaining,
    reservation: {
      event: charged === false && accepted ? 'peeked' : event,
      reserved: charged === false ? 0 : reserved,
      charged: charged === false ? 0 : used,
      overrun,
      held,
      lapsed,
      lapses,
      usage,
      open,
      oldestMs: open > 0 ? Math.max(nowMs - firstMs, 0) : 0,
    },
  };
}

/** Maximum time until the request could pass, by the kind of refusal. */
function waitMs(
  event: ReservationEvent,
  untilFreeMs: number,
  ofCounter: { readonly aloneMs: number; readonly besideMs: number },
): number {
  if (event === 'refused_alone') return ofCounter.aloneMs;
  return Math.max(event === 'refused' ? Math.min(untilFreeMs, ofCounter.besideMs) : untilFreeMs, 1);
}
