import { NEVER_MS, type Spend } from '../algorithms/limit.ts';
import { isReservation } from '../holds/limits.ts';
import type { ReservationEvent } from '../holds/reports.ts';
import type { ReservationLimit } from '../holds/reservation.ts';
import { createDebit, type Debit, heldBy } from '../ledger/debit.ts';
import { atLeast, usedDebit } from '../ledger/estimates.ts';
import { storeCall } from '../ledger/store-budget.ts';
import { InvalidRequest, type RateLimitRequest } from './decide.ts';
import { findMetered, meteredDebit } from './metered.ts';
import { amountUnder, chooseHolder } from './priced.ts';
import { available, heldDescriptors, isRefused, type SlotsDecider, type TimedCaller } from './slots.ts';

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

export function createReservations(decider: SlotsDecider): Reservations {
  const { ledger } = decider;
  return {
    async reserve(request, caller) {
      const debits = reservationDebits(request, decider, false);
      const limits = debits.map(({ limit }) => limit as ReservationLimit); // `reservationDebits` has no others
      const ttlMs = Math.min(...limits.map((limit) => limit.ttlMs));
      const hits = Math.max(...debits.map((debit) => debit.hits));
      if (isRefused(request, decider)) return { reserved: false, hits, ttlMs, retryAfterMs: NEVER_MS };
      const isTogether = ledger.atomic === 'request';
      const spend: Spend = isTogether ? 'all_or_nothing' : 'each';
      const how = storeCall(spend, decider.storeBudget, caller.timeLeftMs());
      const entries = await ledger.debit(debits, { ...how, receipts: !isTogether });
      const decisions = available(entries);
      const refusals = decisions.filter(({ code }, at) => code === 'OVER_LIMIT' && debits[at]?.blocks);
      if (refusals.length > 0)
        await Promise.all(entries.map((entry) => 'receipt' in entry && entry.receipt && ledger.refund(entry.receipt)));
      return {
        reserved: refusals.length === 0,
        hits,
        ttlMs,
        retryAfterMs: Math.max(0, ...refusals.map(({ retryAfterMs }) => retryAfterMs)),
      };
    },
    async commit(request, caller) {
      const how = storeCall('each', decider.storeBudget, caller.timeLeftMs());
      const entries = await ledger.debit(reservationDebits(request, decider, true), how);
      const reports = available(entries).flatMap(({ reservation }) => reservation ?? []);
      return {
        event: (reports[0]?.event ?? 'unknown') as CommitAnswer['event'], // a commit has no others
        charged: Math.max(0, ...reports.map(({ charged }) => charged)),
        overrun: Math.max(0, ...reports.map(({ overrun }) => overrun)),
      };
    },
  };
}

function reservationDebits(request: RateLimitRequest, decider: SlotsDecider, commits: boolean): readonly Debit[] {
  const debits = heldDescriptors(request, decider, commits ? 0 : 1).flatMap((descriptor) => {
    const { found, holder } = descriptor;
    const metered = findMetered(decider, found.limits);
    return found.limits.flatMap((own) => {
      const { limit, policy } = own;
      if (!isReservation(limit)) return [];
      const counter = decider.counters(limit, request.domain, found.entries);
      const one = { limit, policy };
      const hits = amountUnder(limit, descriptor);
      const blocks = !policy.shadow && !decider.shadowMode;
      const debit = commits
        ? usedDebit(counter, one, hits, decider.estimates)
        : createDebit(counter, one, atLeast(limit, counter, hits, decider.estimates), blocks);
      const held = heldBy(debit, { holder: chooseHolder(holder, descriptor), commits });
      return own === metered ? meteredDebit(held) : held;
    });
  });
  if (debits.length > 0) return debits;
  throw new InvalidRequest('no descriptor meets a limit with reserve and an id (not_counted: hold)');
}
