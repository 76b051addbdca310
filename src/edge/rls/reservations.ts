import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { CommitAnswer, Reservations, ReserveAnswer } from '../../engine/holds/reservations.ts';
import { decodeHold, durationOf, type HoldOutcome, outcomeOf } from './hold-call.ts';
import type { CommitResponse, HoldRequest, ReserveResponse } from './proto.ts';

/** `Reserve` and `Commit` of `weir.v1.Holds`, independent of the transport. Never rejects. */
export interface ReservationsService {
  reserve(request: HoldRequest): Promise<HoldOutcome<ReserveResponse>>;
  commit(request: HoldRequest): Promise<HoldOutcome<CommitResponse>>;
}

export const createReservationsService = (reservations: Reservations): ReservationsService => ({
  reserve: (request) => outcomeOf(async () => encodeReserve(await reservations.reserve(decodeHold(request)))),
  commit: (request) => outcomeOf(async () => encodeCommit(await reservations.commit(decodeHold(request)))),
});

const encodeReserve = ({ reserved, hits, ttlMs, retryAfterMs }: ReserveAnswer): ReserveResponse => ({
  reserved,
  hits: reserved ? hits : 0,
  ttl: durationOf(reserved ? ttlMs : 0),
  retry_after: reserved || retryAfterMs === NEVER_MS ? null : durationOf(retryAfterMs),
});

/** The numbers of `CommitResponse.Outcome`. */
const outcomes = { committed: 1, late: 2, unknown: 3, repeated: 4 } as const;

const encodeCommit = ({ event, charged, overrun }: CommitAnswer): CommitResponse => ({
  outcome: outcomes[event],
  charged,
  overrun,
});
