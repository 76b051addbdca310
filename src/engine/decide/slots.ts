import { NEVER_MS, type Spend } from '../algorithms/limit.ts';
import { StoreUnavailable } from '../backends/backend.ts';
import { childKeys } from '../backends/key.ts';
import { hashHolder } from '../holds/claim.ts';
import { claimShare } from '../holds/fair-share.ts';
import { limitsInFlight } from '../holds/limits.ts';
import { createDebit, type Debit, heldBy, type LedgerEntry, sharedBy } from '../ledger/debit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { storeCall } from '../ledger/store-budget.ts';
import type { Match } from '../rules/match/match.ts';
import { type Decider, InvalidRequest, matchDescriptors, type RateLimitRequest, RulesNotLoaded } from './decide.ts';
import { type Priced, withPrices } from './priced.ts';
import { SlotQueues } from './queues.ts';
import { findUnmet } from './unmet.ts';

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
   * Takes slots of all limits of the request that use ids, or of none.
   *
   * @param maxDelayMs  how long to wait for them
   */
  acquire(request: RateLimitRequest, maxDelayMs: number, caller: HoldsCaller): Promise<SlotAnswer>;
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

/** The dependencies of counting slots. */
export interface SlotsDecider extends Omit<Decider, 'ledger'> {
  readonly ledger: Pick<Ledger, 'debit' | 'refund' | 'atomic'>;
  readonly onWork: (units: number) => void;
}

export function createSlots(decider: SlotsDecider): Slots {
  const queues = new SlotQueues<SlotAnswer>();
  return {
    async acquire(request, maxDelayMs, caller) {
      const debits = slotDebits(request, decider, 1);
      if (isRefused(request, decider)) return { held: false, ttlMs: shortestWindowMs(debits), retryAfterMs: NEVER_MS };
      // each child has a queue of its own
      const keys = debits.flatMap(({ key, slotShare }) => [key, ...childKeys({ key, share: slotShare })]);
      const take = (): Promise<SlotAnswer> => acquire(debits, decider, caller);
      const onGone = (listener: () => void): void => caller.onGone(listener);
      if (maxDelayMs <= 0) return take();
      const drop = async (): Promise<void> => {
        await giveBack(debits, decider);
        queues.wake(keys);
      };
      return queues.run({ keys, maxDelayMs, take, isTaken: ({ held }) => held, drop, onGone });
    },
    async release(request, caller) {
      const debits = slotDebits(request, decider, -1);
      available(await decider.ledger.debit(debits, storeCall('each', decider.storeBudget, caller.timeLeftMs())));
      queues.wake(debits.map(({ key }) => key));
    },
  };
}

/** @param sign  1 takes, -1 releases */
function slotDebits(request: RateLimitRequest, decider: SlotsDecider, sign: 1 | -1): readonly Debit[] {
  const debits = heldDescriptors(request, decider, 1).flatMap(({ found, hits, holder }) =>
    found.limits.flatMap(({ limit, policy }) => {
      if (!limitsInFlight(limit)) return [];
      const blocks = !policy.shadow && !decider.shadowMode;
      const counter = decider.counters(limit, request.domain, found.entries);
      const debit = createDebit(counter, { limit, policy }, sign * hits, blocks);
      const held = heldBy(debit, { holder, threshold: found.threshold });
      return found.children ? sharedBy(held, claimShare(limit, found.children)) : held;
    }),
  );
  if (debits.length > 0) return debits;
  throw new InvalidRequest('no descriptor meets a limit with algorithm: in_flight and an id (not_counted: hold)');
}

/** Takes all slots or none: if the store counts each limit separately, slots already taken are released. */
async function acquire(debits: readonly Debit[], decider: SlotsDecider, caller: TimedCaller): Promise<SlotAnswer> {
  const isTogether = decider.ledger.atomic === 'request';
  const spend: Spend = isTogether ? 'all_or_nothing' : 'each';
  const how = storeCall(spend, decider.storeBudget, caller.timeLeftMs());
  const decisions = available(await decider.ledger.debit(debits, how));
  const refusals = decisions.filter(({ code }, at) => code === 'OVER_LIMIT' && debits[at]?.blocks);
  if (refusals.length > 0 && !isTogether) await giveBack(debits, decider);
  return {
    held: refusals.length === 0,
    ttlMs: shortestWindowMs(debits),
    retryAfterMs: Math.max(0, ...refusals.map(({ retryAfterMs }) => retryAfterMs)),
  };
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
async function giveBack(debits: readonly Debit[], { ledger, storeBudget }: SlotsDecider): Promise<void> {
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

/** A descriptor whose id may hold something. */
interface HeldDescriptor {
  readonly found: Extract<Match, { kind: 'limited' }>;
  readonly hits: number;
  readonly priced?: Priced | undefined;
  /** See `hashHolder`. */
  readonly holder: number;
}

/**
 * The descriptors of a request that have an id and match a limit.
 *
 * @throws InvalidRequest  an id is empty, or a descriptor has fewer hits than `minHits`
 * @throws RulesNotLoaded
 */
export function heldDescriptors(
  request: RateLimitRequest,
  decider: Pick<Decider, 'rules' | 'overrides' | 'clock' | 'onWork'>,
  minHits: number,
): readonly HeldDescriptor[] {
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');
  const held = matchDescriptors(request, rules, decider).flatMap((found, at): HeldDescriptor[] => {
    if (found.kind !== 'limited' || found.id === undefined) return [];
    const hits = request.descriptors[at]?.hits ?? 1;
    if (found.id === '') throw new InvalidRequest(`descriptors[${at}]: the id must not be empty`);
    if (hits < minHits) throw new InvalidRequest(`descriptors[${at}]: hits must be at least ${minHits}, got ${hits}`);
    return [{ found, hits, holder: hashHolder(found.id) }];
  });
  return withPrices(held);
}
