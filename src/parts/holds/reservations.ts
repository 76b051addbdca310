import type { ServiceDecider } from '../../edge/grpc/side-service.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { RateLimitRequest } from '../../engine/decide/plan.ts';
import { isReservation } from '../../engine/holds/limits.ts';
import type { ReservationEvent } from '../../engine/holds/reports.ts';
import { storeCall } from '../../engine/ledger/store-budget.ts';
import { available, isRefused, planHeld, type TimedCaller, takeAll } from './slots.ts';

/** The result of a reservation. */
export interface ReserveAnswer {
  readonly reserved: boolean;
  /** The hits reserved: those of the request, or more if the rule requires it; of several limits the most. */
  readonly hits: number;
  /** The time until they are free again unless they are committed; of several limits the shortest. */
  readonly ttlMs: number;
  /** Maximum time until they could be reserved; 0 if they are, `NEVER_MS` if they never can be. */
  readonly retryAfterMs: number;
}

/** The result of a commit. */
export interface CommitAnswer {
  /** If there are several limits, the event of the first. */
  readonly event: Extract<ReservationEvent, 'committed' | 'late' | 'unknown' | 'repeated'>;
  /** If there are several limits, the most. */
  readonly charged: number;
  readonly overrun: number;
}

/** Reservations for callers other than proxies: `weir.v1.Holds`. Throws the same errors as `decide`. */
export interface Reservations {
  /** Reserves hits of all limits of the request with `reserve`, or of none. */
  reserve(request: RateLimitRequest, caller: TimedCaller): Promise<ReserveAnswer>;
  /** Charges the hits of the request to the same limits. */
  commit(request: RateLimitRequest, caller: TimedCaller): Promise<CommitAnswer>;
}

/** @param onCommit  called with the domain of each commit, since callers may reserve by another service */
export function createReservations(
  decider: ServiceDecider,
  onCommit: (domain: string) => void = () => {},
): Reservations {
  const named = 'reserve';
  return {
    async reserve(request, caller) {
      const plan = planHeld(request, decider, { hits: 'asked', uses: isReservation, minHeldHits: 1, named });
      const ttls = plan.debits.flatMap(({ limit }) => (isReservation(limit) ? limit.ttlMs : []));
      const ttlMs = ttls.length > 0 ? Math.min(...ttls) : 0; // what an operator sets reserves nothing
      const hits = Math.max(0, ...plan.debits.map((debit) => debit.hits));
      if (isRefused(request, decider)) return { reserved: false, hits, ttlMs, retryAfterMs: NEVER_MS };
      const { overallCode, retryAfterMs = 0 } = await takeAll(plan, decider, caller);
      return { reserved: overallCode === 'OK', hits, ttlMs, retryAfterMs };
    },
    async commit(request, caller) {
      onCommit(request.domain);
      const { debits } = planHeld(request, decider, { hits: 'committed', uses: isReservation, minHeldHits: 0, named });
      const how = storeCall('each', decider.storeBudget, caller.timeLeftMs());
      const reports = available(await decider.ledger.debit(debits, how)).flatMap(
        ({ reservation }) => reservation ?? [],
      );
      return {
        event: (reports[0]?.event ?? 'unknown') as CommitAnswer['event'], // a commit has no others
        charged: Math.max(0, ...reports.map(({ charged }) => charged)),
        overrun: Math.max(0, ...reports.map(({ overrun }) => overrun)),
      };
    },
  };
}
