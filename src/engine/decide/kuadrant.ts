import { createHash, randomUUID } from 'node:crypto';
import { RequestWork } from '../../base/request-work.ts';
import { isReservation, limitsInFlight } from '../holds/limits.ts';
import { createDebit, type Debit } from '../ledger/debit.ts';
import { usedDebit } from '../ledger/estimates.ts';
import { storeCall } from '../ledger/store-budget.ts';
import { match, withIds } from '../rules/match/match.ts';
import type { RuleLimit, RuleTree } from '../rules/match/tree.ts';
import {
  type Answer,
  type Decider,
  decide,
  InvalidRequest,
  matchDescriptors,
  type RateLimitRequest,
  type RequestDescriptor,
  RulesNotLoaded,
} from './decide.ts';
import { findMetered, meteredDebit } from './metered.ts';
import { PlainCharges } from './plain-charges.ts';
import { amountUnder, withPrices } from './priced.ts';
import type { CommitAnswer, Reservations } from './reservations.ts';
import { available, type SlotsDecider, type TimedCaller } from './slots.ts';
import { findUnmet } from './unmet.ts';

/**
 * Checks and charges of limits before and after a request, for Kuadrant's filter, whose descriptors do not contain the
 * id of the request. Throws the same errors as `decide`.
 */
export interface KuadrantLimits {
  /** The answer that the request would get, with at least one hit for each descriptor. Charges nothing. */
  check(request: RateLimitRequest, caller: TimedCaller): Promise<Answer>;
  /** Charges the hits, even beyond the limits. */
  report(request: RateLimitRequest, caller: TimedCaller): Promise<void>;
  /**
   * Reserves the hits of all limits with `reserve`, or of none. Other limits must have room for them.
   *
   * @returns the id of the reservation, or undefined if it was refused
   */
  reserve(request: RateLimitRequest, caller: TimedCaller): Promise<string | undefined>;
  /**
   * Charges the hits to the same limits; for a reservation, once: a failed commit may be repeated.
   *
   * @param reservation  the result of `reserve`, or empty
   * @returns whether it had hits on hold
   * @throws StoreUnavailable  a part may be charged; the rest may be charged later, or when the commit is repeated
   */
  commit(request: RateLimitRequest, reservation: string, caller: TimedCaller): Promise<boolean>;
}

export function createKuadrantLimits(decider: SlotsDecider, reservations: Reservations): KuadrantLimits {
  const peeking: Decider = { ...decider, ledger: peekingOn(decider) };
  const peek = async (request: RateLimitRequest, caller: TimedCaller): Promise<Answer> =>
    await decide(request, peeking, caller.timeLeftMs());
  const charge = async (debits: readonly Debit[], caller: TimedCaller): Promise<void> => {
    if (debits.length === 0) return;
    available(await decider.ledger.debit(debits, storeCall('each', decider.storeBudget, caller.timeLeftMs())));
  };
  const plain = new PlainCharges(decider);
  const isMet = (request: RateLimitRequest, of: (one: RuleLimit) => boolean): boolean =>
    matchLimits(request, decider).some(({ found }) => found.limits.some(of));
  return {
    async check(request, caller) {
      const { domain, descriptors } = named(request, decider, '');
      const spending = descriptors.map((one) => ({ ...one, hits: Math.max(one.hits, 1) }));
      return peek({ domain, descriptors: spending }, caller);
    },
    async report(request, caller) {
      await charge(createCharges(named(request, decider, ''), decider, isUsage), caller);
    },
    async reserve(request, caller) {
      const id = randomUUID();
      const namedRequest = named(request, decider, id);
      const isNothing = namedRequest.descriptors.every(({ hits }) => hits === 0);
      if (isNothing || isMet(namedRequest, isPlain)) {
        const { overallCode } = await peek(namedRequest, caller);
        if (overallCode === 'OVER_LIMIT') return undefined;
      }
      if (isNothing || !isMet(namedRequest, isReserving)) return id;
      const { reserved } = await reservations.reserve(namedRequest, caller);
      return reserved ? id : undefined;
    },
    async commit(request, id, caller) {
      const namedRequest = named(request, decider, id);
      if (id === '' || !isMet(namedRequest, isReserving)) {
        await charge(createCharges(namedRequest, decider, isUsage), caller);
        return false;
      }
      const commit = (): Promise<CommitAnswer> => reservations.commit(namedRequest, caller);
      const charges = createCharges(namedRequest, decider, isPlain);
      const { event } = await (charges.length > 0
        ? plain.commit({ name: commitName(namedRequest, id), commit, charges, caller })
        : commit());
      return event === 'committed';
    },
  };
}

const isReserving = ({ limit }: RuleLimit): boolean => isReservation(limit);
/** Whether hits of a limit are used up, unlike slots of requests in flight. */
const isUsage = ({ limit }: Pick<RuleLimit, 'limit'>): boolean => !limitsInFlight(limit);
const isPlain = (one: RuleLimit): boolean => isUsage(one) && !isReserving(one);

/**
 * Peeks instead of spending, for one hit of requests in flight. Spends as a set, so that nothing is charged even if a
 * limit refuses.
 */
const peekingOn = ({ ledger }: Pick<SlotsDecider, 'ledger'>): Decider['ledger'] => ({
  debit: (debits, how) =>
    ledger.debit(
      debits.map((debit): Debit => ({ ...debit, kind: 'peek', hits: isUsage(debit) ? debit.hits : 1 })),
      { ...how, spend: 'all_or_nothing' },
    ),
});

/**
 * The same request, with an id for each descriptor that lacks one that the rules require.
 *
 * @throws InvalidRequest
 * @throws RulesNotLoaded
 * @throws TooCostly
 */
function named({ domain, descriptors }: RateLimitRequest, decider: SlotsDecider, id: string): RateLimitRequest {
  if (domain === '') throw new InvalidRequest('rate limit domain must not be empty');
  if (descriptors.length === 0) throw new InvalidRequest('rate limit descriptor list must not be empty');
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');
  const naming: Naming = { domain, rules, id, work: new RequestWork(decider.onWork) };
  return { domain, descriptors: descriptors.map((one) => namedDescriptor(one, naming)) };
}

interface Naming {
  readonly domain: string;
  readonly rules: RuleTree;
  readonly id: string;
  readonly work: RequestWork;
}

function namedDescriptor(descriptor: RequestDescriptor, { domain, rules, id, work }: Naming): RequestDescriptor {
  if (match(rules, domain, descriptor, { work }).kind !== 'no_rule') return descriptor;
  const candidates = withIds(rules, domain, descriptor.entries, id).map((entries) => ({ ...descriptor, entries }));
  return candidates.find((one) => match(rules, domain, one, { work }).kind === 'limited') ?? descriptor;
}

/** The name of a commit, of constant length: equal if the commit is repeated. */
function commitName({ domain, descriptors }: RateLimitRequest, id: string): string {
  const texts = JSON.stringify([domain, id, descriptors.map(({ entries }) => entries)]);
  return createHash('sha256').update(texts).digest('base64');
}

/** The limits that a request matches, by descriptor. */
function matchLimits(request: RateLimitRequest, decider: SlotsDecider) {
  const rules = decider.rules();
  if (!rules) return [];
  const counted = findUnmet(request, rules)?.descriptors ?? request.descriptors;
  const limited = matchDescriptors({ ...request, descriptors: counted }, rules, decider).flatMap((found, at) => {
    if (found.kind === 'invalid_request_limit') throw new InvalidRequest(found.problem);
    return found.kind === 'limited' ? [{ found, hits: counted[at]?.hits ?? 1 }] : [];
  });
  return withPrices(limited);
}

function createCharges(
  request: RateLimitRequest,
  decider: SlotsDecider,
  of: (one: RuleLimit) => boolean,
): readonly Debit[] {
  return matchLimits(request, decider).flatMap((descriptor) => {
    const { limits, entries } = descriptor.found;
    const metered = findMetered(decider, limits);
    return limits.filter(of).map((one): Debit => {
      const counter = decider.counters(one.limit, request.domain, entries);
      const hits = amountUnder(one.limit, descriptor);
      const debit: Debit =
        hits <= 0
          ? createDebit(counter, one, hits, false)
          : { ...usedDebit(counter, one, hits, decider.estimates), kind: 'charge' };
      return one === metered ? meteredDebit(debit) : debit;
    });
  });
}
