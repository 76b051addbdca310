import { NEVER_MS, unitMs } from '../../engine/algorithms/limit.ts';
import { InvalidRequest } from '../../engine/decide/decide.ts';
import type { Reservations } from '../../engine/holds/reservations.ts';
import type { SlotAnswer, Slots } from '../../engine/holds/slots.ts';
import { decodeHold, durationOf, type HoldOutcome, outcomeOf } from './hold-call.ts';
import type { AcquireRequest, HoldRequest, HoldResponse } from './proto.ts';
import { createReservationsService, type ReservationsService } from './reservations.ts';

/** The longest time that a caller may wait for slots. */
const MAX_DELAY_MS = unitMs.HOUR;

/** `weir.v1.Holds`, independent of the transport. Never rejects. */
export interface HoldsService extends ReservationsService {
  /** @param onGone  calls the listener once if the caller gives up; at once if it has already */
  acquire(request: AcquireRequest, onGone: (listener: () => void) => void): Promise<HoldOutcome<HoldResponse>>;
  renew(request: HoldRequest): Promise<HoldOutcome<HoldResponse>>;
  release(request: HoldRequest): Promise<HoldOutcome<object>>;
}

export function createHoldsService(slots: Slots, reservations: Reservations): HoldsService {
  return {
    ...createReservationsService(reservations),
    acquire: (request, onGone) =>
      outcomeOf(async () => encode(await slots.acquire(decodeHold(request), maxDelayMs(request), onGone))),
    renew: (request) => outcomeOf(async () => encode(await slots.acquire(decodeHold(request), 0, () => {}))),
    release: (request) =>
      outcomeOf(async () => {
        await slots.release(decodeHold(request));
        return {};
      }),
  };
}

function maxDelayMs({ max_delay: written }: AcquireRequest): number {
  const ms = written ? Number(written.seconds) * 1_000 + Math.floor(written.nanos / 1e6) : 0;
  if (ms >= 0 && ms <= MAX_DELAY_MS) return ms;
  throw new InvalidRequest(`max_delay must be 0 to ${MAX_DELAY_MS / 1_000} seconds, got ${ms / 1_000}`);
}

const encode = ({ held, ttlMs, retryAfterMs }: SlotAnswer): HoldResponse => ({
  held,
  ttl: durationOf(held ? ttlMs : 0),
  retry_after: held || retryAfterMs === NEVER_MS ? null : durationOf(retryAfterMs),
});
