import type { ServiceDecider } from '../../edge/grpc/side-service.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import { childKeys } from '../../engine/backends/key.ts';
import { type Answer, combine, type Decider } from '../../engine/decide/decide.ts';
import { type Door, InvalidRequest, type Plan, planRequest, type RateLimitRequest } from '../../engine/decide/plan.ts';
import { findUnmet } from '../../engine/decide/unmet.ts';
import { limitsInFlight } from '../../engine/holds/limits.ts';
import type { Debit, LedgerEntry } from '../../engine/ledger/debit.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { storeCall } from '../../engine/ledger/store-budget.ts';
import { SlotQueues } from './queues.ts';

/** The result of a request for slots. */
export interface SlotAnswer {
  readonly held: boolean;
  /** The time until the slots expire; of several limits the shortest. */
  readonly ttlMs: number;
  /** Maximum time until the slots are free; 0 if they are held, `NEVER_MS` if they never will be. */
  readonly retryAfterMs: number;
}

/** Slots for callers other than proxies: `weir.v1.Holds`. Throws the same errors as `decide`. */
export interface Slots {
  /**
   * Takes slots of all limits of the request that use ids, or of none; of quotas, slots of those that have one left.
   *
   * @param maxDelayMs  how long to wait for them
   * @param hits        `renewed`: the holder has them. Default: `asked`
   */
  acquire(
    request: RateLimitRequest,
    maxDelayMs: number,
    caller: HoldsCaller,
    hits?: Extract<Door['hits'], 'asked' | 'renewed'>,
  ): Promise<SlotAnswer>;
  release(request: RateLimitRequest, caller: TimedCaller): Promise<void>;
}

/** A caller that waits for an answer. */
export interface TimedCaller {
  /** Time left until its deadline; Infinity if it set none. */
  timeLeftMs(): number;
}

/** A caller that may wait for slots. */
export interface HoldsCaller extends TimedCaller {
  /** Calls the listener once if the caller gives up, or immediately if it has already. */
  onGone(listener: () => void): void;
}

export function createSlots(decider: ServiceDecider): Slots {
  const queues = new SlotQueues<SlotAnswer>();
  return {
    async acquire(request, maxDelayMs, caller, hits = 'asked') {
      let plan = planSlots(request, decider, hits);
      // a holder that an operator exempts or limits has the time of its rule: clients renew within it
      const ttlMs = (): number => {
        const slots = plan.debits.filter(({ limit }) => limitsInFlight(limit));
        return shortestWindowMs(slots.length > 0 ? slots : planSlots(request, decider, 'returned').debits);
      };
      if (isRefused(request, decider)) return { held: false, ttlMs: ttlMs(), retryAfterMs: NEVER_MS };
      // each child has a queue of its own
      const keys = plan.debits.flatMap(({ key, slotShare }) => [key, ...childKeys({ key, share: slotShare })]);
      const take = async (): Promise<SlotAnswer> => {
        const { overallCode, retryAfterMs = 0 } = await takeAll(plan, decider, caller);
        return { held: overallCode === 'OK', ttlMs: ttlMs(), retryAfterMs };
      };
      const takeAgain = (): Promise<SlotAnswer> => {
        plan = planSlots(request, decider, hits); // rules and overrides may have changed while it waited
        return take();
      };
      const onGone = (listener: () => void): void => caller.onGone(listener);
      if (maxDelayMs <= 0) return take();
      const drop = async (): Promise<void> => {
        await giveBack(plan.debits, decider);
        queues.wake(keys);
      };
      return queues.run({ keys, maxDelayMs, take: takeAgain, isTaken: ({ held }) => held, drop, onGone });
    },
    async release(request, caller) {
      const { debits } = planSlots(request, decider, 'returned');
      available(await decider.ledger.debit(debits, storeCall('each', decider.storeBudget, caller.timeLeftMs())));
      queues.wake(debits.map(({ key }) => key));
    },
  };
}

/** A plan that uses some limit. */
type UsedPlan = Plan & { readonly debits: readonly Debit[] };

const planSlots = (request: RateLimitRequest, decider: ServiceDecider, hits: Door['hits']): UsedPlan =>
  planHeld(request, decider, { hits, uses: limitsInFlight, minHeldHits: 1, named: 'algorithm: in_flight' });

/**
 * Plans for limits that are used by id, whatever keys the request lacks.
 *
 * @throws InvalidRequest  it meets none
 */
export function planHeld(
  request: RateLimitRequest,
  decider: ServiceDecider,
  { named, ...door }: Door & { readonly named: string },
): UsedPlan {
  const plan = planRequest(request, decider, { door, callerTimeoutMs: Number.POSITIVE_INFINITY });
  const { debits = [], matched } = plan;
  if (matched.length > 0) return { ...plan, debits };
  throw new InvalidRequest(`no descriptor meets a limit with ${named} and an id (not_counted: hold)`);
}

/** Takes all that is planned, or nothing if the request as a whole is refused: what was taken is given back. */
export async function takeAll(plan: Plan, decider: ServiceDecider, caller: TimedCaller): Promise<Answer> {
  const { ledger, storeBudget } = decider;
  const spend = ledger.atomic === 'request' ? 'all_or_nothing' : 'each';
  const how = storeCall(spend, storeBudget, caller.timeLeftMs());
  const { debits = [] } = plan;
  const entries = debits.length > 0 ? await ledger.debit(debits, { ...how, receipts: true }) : []; // else it is exempt
  const answer = combine(plan, available(entries), decider);
  if (answer.overallCode === 'OVER_LIMIT')
    await Promise.all(entries.map((entry) => 'receipt' in entry && entry.receipt && ledger.refund(entry.receipt)));
  return answer;
}

const shortestWindowMs = (debits: readonly Debit[]): number =>
  Math.min(...debits.map(({ limit: { windowMs } }) => windowMs));

/** Whether a request that takes something lacks keys without which the rules refuse it. */
export function isRefused(
  request: RateLimitRequest,
  { rules: current, shadowMode }: Pick<Decider, 'rules' | 'shadowMode'>,
): boolean {
  const rules = current();
  if (!rules || shadowMode) return false;
  return findUnmet(request, rules)?.missing.some(({ requirement }) => requirement.otherwise === 'refuse') ?? false;
}

/** Releases slots that may have been taken, however little time the caller has left; if they are not, they expire. */
async function giveBack(debits: readonly Debit[], { ledger, storeBudget }: ServiceDecider): Promise<void> {
  const releases = debits.map((debit): Debit => ({ ...debit, kind: 'give_back' }));
  await ledger.debit(releases, { spend: 'each', timeoutMs: storeBudget(Infinity) });
}

/** @throws StoreUnavailable  an answer is missing */
export function available(entries: Awaited<ReturnType<Ledger['debit']>>): readonly LedgerEntry[] {
  return entries.map((entry) => {
    if (entry.code === 'UNAVAILABLE') throw new StoreUnavailable(entry.reason);
    return entry;
  });
}
