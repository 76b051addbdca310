import { createHash, randomUUID } from 'node:crypto';
import { RequestWork } from '../../base/request-work.ts';
import type { ServiceDecider } from '../../edge/grpc/side-service.ts';
import { type Answer, decideFor } from '../../engine/decide/decide.ts';
import {
  type Door,
  type Plan,
  planRequest,
  type RateLimitRequest,
  type RequestDescriptor,
  rulesFor,
} from '../../engine/decide/plan.ts';
import { isReservation, type Limit, limitsInFlight } from '../../engine/holds/limits.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import { storeCall } from '../../engine/ledger/store-budget.ts';
import { match, withIds } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { CommitAnswer, Reservations } from '../holds/reservations.ts';
import { available, type TimedCaller, takeAll } from '../holds/slots.ts';
import { PlainCharges } from './plain-charges.ts';

export type KuadrantLimits = ReturnType<typeof createKuadrantLimits>;

/**
 * Checks and charges of limits before and after a request, for Kuadrant's filter, whose descriptors do not contain the
 * id of the request. Throws the same errors as `decide`.
 */
export function createKuadrantLimits(decider: ServiceDecider, { commit }: Pick<Reservations, 'commit'>) {
  const charge = async (debits: readonly Debit[], caller: TimedCaller): Promise<void> => {
    if (debits.length === 0) return;
    available(await decider.ledger.debit(debits, storeCall('each', decider.storeBudget, caller.timeLeftMs())));
  };
  const charges = (request: RateLimitRequest, uses: (limit: Limit) => boolean): readonly Debit[] =>
    planFor(request, decider, { hits: 'reported', uses }).debits ?? [];
  const plain = new PlainCharges(decider);
  return {
    /** The answer that the request would get, with at least one hit for each descriptor. Charges nothing. */
    async check(request: RateLimitRequest, caller: TimedCaller): Promise<Answer> {
      const { domain, descriptors } = named(request, decider, '');
      const spending = descriptors.map((one) => ({ ...one, hits: Math.max(one.hits, 1) }));
      return decideFor({ domain, descriptors: spending }, decider, { ...CHECKS, callerTimeoutMs: caller.timeLeftMs() });
    },
    /** Charges the hits, even beyond the limits. */
    async report(request: RateLimitRequest, caller: TimedCaller): Promise<void> {
      await charge(charges(named(request, decider, ''), isUsage), caller);
    },
    /**
     * Reserves the hits of all limits with `reserve`, or of none. Other limits must have room for them.
     *
     * @returns the id of the reservation, or undefined if it was refused
     */
    async reserve(request: RateLimitRequest, caller: TimedCaller): Promise<string | undefined> {
      const id = randomUUID();
      const plan = planFor(named(request, decider, id), decider, { hits: 'asked', peeks: isPeeked });
      return (await takeAll(plan, decider, caller)).overallCode === 'OK' ? id : undefined;
    },
    /**
     * Charges the hits to the same limits; for a reservation, once: a failed commit may be repeated.
     *
     * @param id  the result of `reserve`, or empty
     * @returns whether it had hits on hold
     * @throws StoreUnavailable  a part may be charged; the rest may be charged later, or when the commit is repeated
     */
    async commit(request: RateLimitRequest, id: string, caller: TimedCaller): Promise<boolean> {
      const namedRequest = named(request, decider, id);
      const isReserved =
        id !== '' && planFor(namedRequest, decider, { hits: 'committed', uses: isReservation }).debits !== undefined;
      if (!isReserved) {
        await charge(charges(namedRequest, isUsage), caller);
        return false;
      }
      const commitReserved = (): Promise<CommitAnswer> => commit(namedRequest, caller);
      const others = charges(namedRequest, isPlain);
      const { event } = await (others.length > 0
        ? plain.commit({ name: commitName(namedRequest, id), commit: commitReserved, charges: others, caller })
        : commitReserved());
      return event === 'committed';
    },
  };
}

/** Whether hits of a limit are used up, unlike slots of requests in flight. */
const isUsage = (limit: Limit): boolean => !limitsInFlight(limit);
const isPlain = (limit: Limit): boolean => isUsage(limit) && !isReservation(limit);
const isPeeked = (limit: Limit): boolean => !isReservation(limit);

/** Peeks, as one set, so that nothing is charged even if a limit refuses. */
const CHECKS = { door: { hits: 'asked', peeks: () => true }, spend: 'all_or_nothing' } as const;

const planFor = (request: RateLimitRequest, decider: ServiceDecider, door: Door): Plan =>
  planRequest(request, decider, { door, callerTimeoutMs: Number.POSITIVE_INFINITY });

/**
 * The same request, with an id for each descriptor that lacks one that the rules require.
 *
 * @throws InvalidRequest
 * @throws RulesNotLoaded
 * @throws TooCostly
 */
function named(request: RateLimitRequest, decider: ServiceDecider, id: string): RateLimitRequest {
  const { domain, descriptors } = request;
  const rules = rulesFor(request, decider);
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
