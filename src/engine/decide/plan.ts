import type { Clock } from '../../base/clock.ts';
import { RequestWork, TooCostly } from '../../base/request-work.ts';
import type { Spend } from '../algorithms/limit.ts';
import type { Counters } from '../backends/key.ts';
import { MAX_REQUEST_WORK, measureWork, stepWork } from '../backends/store-work.ts';
import { hashHolder } from '../holds/claim.ts';
import { capDelay, type Limit, limitsInFlight } from '../holds/limits.ts';
import { claimShare } from '../holds/sharing.ts';
import { createDebit, type Debit, heldBy, sharedBy, withStatus } from '../ledger/debit.ts';
import { atLeast, type Estimates, usedDebit } from '../ledger/estimates.ts';
import { type Descriptor, type Match, type Miss, matchAll } from '../rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../rules/match/tree.ts';
import { appended } from './appended.ts';
import { findMetered, meteredDebit } from './metered.ts';
import { findOutcome, isResponse, type Outcome, outcomeDebit } from './outcomes.ts';
import { isBlock, type Overrides } from './overrides.ts';
import { amountUnder, chooseHolder, type Priced, withPrices } from './priced.ts';
import { type RepeatedCounters, repeatedCounters } from './retry.ts';
import { findUnmet, type Unmet } from './unmet.ts';

/** Asks whether to admit a request that is counted by these descriptors. */
export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly RequestDescriptor[];
}

export interface RequestDescriptor extends Descriptor {
  /** The hits that this descriptor counts, an integer: 0 peeks, a negative number refunds hits. */
  readonly hits: number;
}

/** The request is invalid; the message explains the problem to its author. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
}

/** No decision is possible: no valid rules have been loaded yet. */
export class RulesNotLoaded extends Error {
  override readonly name = 'RulesNotLoaded';
}

/** What a caller does with the limits that its request matches. */
export interface Door {
  /**
   * What its hits are.
   *
   * asked      to be spent if there is room; with an id that commits, used of what is reserved
   * renewed    to keep slots that are held; an operator's limit has counted them already
   * returned   given back
   * committed  used of what is reserved
   * reported   used already, whatever the limit; no request holds them
   */
  readonly hits: 'asked' | 'renewed' | 'returned' | 'committed' | 'reported';
  /** The limits that it uses. Default: all. */
  readonly uses?: (limit: Limit) => boolean;
  /** The limits at which it only peeks; of slots, at one. Default: none. */
  readonly peeks?: (limit: Limit) => boolean;
  /** It uses limits by the ids of requests alone, with at least so many hits. Default: by all descriptors. */
  readonly minHeldHits?: number;
}

/** The dependencies of planning, which are the same for all requests between two reloads. @internal */
export interface Planner {
  /** Undefined until the first rules have been loaded. */
  readonly rules: () => RuleTree | undefined;
  readonly counters: Counters;
  /** This process's clock, which determines the limits of a schedule that apply. */
  readonly clock: Clock;
  /** Answer OK instead of OVER_LIMIT. */
  readonly shadowMode: boolean;
  /** Every rule is a quota rule. */
  readonly quotaMode: boolean;
  /** The spending mode of domains that do not set one: what a request spends if a limit refuses it. */
  readonly spend: Spend;
  /** Estimates from the usage of earlier requests, if any. */
  readonly estimates?: Estimates;
  /** Operators' overrides for single descriptors, if any. */
  readonly overrides?: Overrides;
  /** Whether the hits of each rule's longest limit are usage. Default: false. */
  readonly metersUsage?: boolean;
  /** Charges the work of requests whose callers do not: see `RequestWork`. */
  readonly onWork?: (units: number) => void;
  /** Called when a request charges or gives back more hits than are counted. */
  readonly onBounded?: (bounded: BoundedHits) => void;
}

/** Hits that a request charges or gives back, of which only a part is counted. @internal */
export interface BoundedHits extends Pick<LimitedMatch, 'rule' | 'entries'> {
  readonly limit: Limit;
  readonly hits: number;
  readonly counted: number;
}

/** A request as it is counted. */
interface CountedRequest extends RateLimitRequest {
  /** See `Unmet`. */
  readonly onlyAt?: number | undefined;
  /** See `Door`. */
  readonly isRenewed?: boolean | undefined;
}

type ValidMatch = Exclude<Match, { kind: 'invalid_request_limit' }>;
type LimitedMatch = Extract<ValidMatch, { kind: 'limited' }>;

/** The match of a descriptor, and the hits that it counts. */
export interface MatchedDescriptor {
  readonly found: ValidMatch;
  readonly hits: number;
  /** Absent: hits count. */
  readonly outcome?: Outcome | undefined;
  /** Absent: its hits have no price. */
  readonly priced?: Priced | undefined;
}

/** What one request does to counters. */
export interface Plan {
  readonly domain: string;
  /** One per descriptor, with the limits that the door uses; without those that have none, if it does not use all. */
  readonly matched: readonly MatchedDescriptor[];
  /** One for each limit of `matched`, in this order; then the peeks of `repeated`. Undefined if there are none. */
  readonly debits: readonly Debit[] | undefined;
  readonly repeated: RepeatedCounters | undefined;
  readonly spend: Spend;
  /** What the request lacks, so that other descriptors count it; undefined if nothing, or if it uses limits by id. */
  readonly unmet: Unmet | undefined;
  /** Whether each of its rules is a quota rule. */
  readonly quotaMode: boolean;
}

/** How a request came, and what it wants. */
export interface Arrival {
  /** Time left until the caller's deadline, after which no turn is reserved. */
  readonly callerTimeoutMs: number;
  readonly door: Door;
  /** What it spends if a limit refuses it. Default: as its domain says. */
  readonly spend?: Spend;
  /** Default: charged to the planner's `onWork`. */
  readonly work?: RequestWork;
}

/** The part of a caller's deadline that is reserved for sending the answer, if a request is held. */
const HOLD_MARGIN_MS = 5;

/**
 * Maximum number of descriptors of a request, all of whose limits are counted in one step: a script of Redis has room
 * for about 8,000 values at a time, and a descriptor may have 16 limits.
 */
export const MAX_DESCRIPTORS = 256;

/** The rules for a request that is complete. @throws InvalidRequest @throws RulesNotLoaded @internal */
export function rulesFor({ domain, descriptors }: RateLimitRequest, { rules }: Pick<Planner, 'rules'>): RuleTree {
  if (domain === '') throw new InvalidRequest('rate limit domain must not be empty');
  if (descriptors.length === 0) throw new InvalidRequest('rate limit descriptor list must not be empty');
  if (descriptors.length > MAX_DESCRIPTORS)
    throw new InvalidRequest(`descriptors must have at most ${MAX_DESCRIPTORS} descriptors, got ${descriptors.length}`);
  const tree = rules();
  if (!tree) throw new RulesNotLoaded('no rate limit configuration loaded');
  return tree;
}

/**
 * The one way from a request to its debits: what each limit that it matches counts, under which key, for whom, and
 * whether it can refuse.
 *
 * @throws TooCostly       the store would work on the debits for too long
 * @throws InvalidRequest  no domain, no descriptors or too many; an invalid request limit, id, or number of hits
 * @throws RulesNotLoaded
 * @internal
 */
export function planRequest(request: RateLimitRequest, planner: Planner, arrival: Arrival): Plan {
  const { door, work = new RequestWork(planner.onWork) } = arrival;
  const { domain } = request;
  const maxHoldMs = Math.max(Math.floor(arrival.callerTimeoutMs) - HOLD_MARGIN_MS, 0);
  const rules = rulesFor(request, planner);
  const ofDomain = rules.domains.get(domain);
  const mayLack = ofDomain?.requirements !== undefined && door.minHeldHits === undefined;
  const unmet = mayLack ? findUnmet(request, rules, work) : undefined;
  const isRenewed = door.hits === 'renewed';
  const counted = unmet || isRenewed ? { ...request, ...unmet, isRenewed } : request;
  const matched = matchRequest(counted, rules, settles(door) ? withoutOverrides(planner) : planner, work);
  // no quota lets a request pass that lacks keys, or that an operator blocks
  const quotaMode = planner.quotaMode && unmet?.onlyAt === undefined && !matched.some(isBlocked);
  if (door.minHeldHits !== undefined) checkHeld(matched, door.minHeldHits);
  const own = arrival.spend ?? ofDomain?.spend ?? planner.spend;
  const spend = own !== 'each' && matched.some(isResponse) ? 'each' : own; // it has passed already
  const debits = createDebits(matched, { planner, door, maxHoldMs, domain, spend, quotaMode });
  const plan = { domain, matched: onlyUsed(matched, door), debits, repeated: undefined, spend, unmet, quotaMode };
  if (!debits) return plan;
  chargeSteps(debits, work);
  const repeated = repeatedCounters(debits, quotaMode);
  return repeated ? { ...plan, debits: debits.concat(repeated.peeks), repeated } : plan;
}

/** Whether hits go back to the limits that hold them, or are used of these, whatever operators say of requests now. */
const settles = ({ hits }: Door): boolean => hits === 'returned' || hits === 'committed';

const withoutOverrides = ({ overrides: _, ...others }: Planner): Planner => others;

const isBlocked = ({ found }: MatchedDescriptor): boolean => found.kind === 'limited' && found.limits.some(isBlock);

/** The debits of a request that asks to pass, independent of one another. Throws as `planRequest`. @internal */
export function requestDebits(request: RateLimitRequest, planner: Planner): readonly Debit[] {
  const rules = planner.rules();
  if (!rules) return [];
  const matched = matchRequest({ ...request, ...findUnmet(request, rules) }, rules, planner, new RequestWork());
  const { domain } = request;
  const { quotaMode } = planner;
  return createDebits(matched, { planner, door: ASKS, maxHoldMs: 0, domain, spend: 'each', quotaMode }) ?? [];
}

/** A request that asks to pass. */
export const ASKS: Door = { hits: 'asked' };

const NOT_COUNTED: Miss = { kind: 'no_rule' };

/** The match of each descriptor of a request: an operator's override if there is one, else its rule. @internal */
export function matchDescriptors(
  { domain, descriptors, onlyAt, isRenewed }: CountedRequest,
  rules: RuleTree,
  planner: Pick<Planner, 'overrides' | 'clock' | 'onWork'>,
  work: RequestWork = new RequestWork(planner.onWork),
): readonly Match[] {
  const { overrides, clock } = planner;
  if (onlyAt !== undefined) {
    const only = { domain, descriptors: descriptors.slice(onlyAt, onlyAt + 1) };
    const [found = NOT_COUNTED] = matchDescriptors(only, rules, planner, work);
    return descriptors.map((_, at) => (at === onlyAt ? found : NOT_COUNTED));
  }
  const isOverriding = overrides !== undefined && overrides.size > 0;
  const override = isOverriding
    ? (found: Match, at: number) =>
        overrides.apply(found, domain, descriptors[at]?.entries ?? [], { hits: descriptors[at]?.hits, isRenewed })
    : undefined;
  return matchAll(rules, domain, descriptors, { clock, work, override });
}

function matchRequest(
  request: CountedRequest,
  rules: RuleTree,
  planner: Planner,
  work: RequestWork,
): readonly MatchedDescriptor[] {
  const matched: MatchedDescriptor[] = [];
  for (const found of matchDescriptors(request, rules, planner, work)) {
    const hits = request.descriptors[matched.length]?.hits ?? 0;
    const counted = valid(found);
    const { countWhen } = counted.kind === 'limited' ? counted.rule : NO_STATUSES;
    if (!countWhen) matched.push({ found: counted, hits });
    else matched.push({ found: counted, ...findOutcome(countWhen, hits, 'commits' in counted) });
  }
  return withPrices(matched);
}

const NO_STATUSES: Pick<Rule, 'countWhen'> = {};

function valid(found: Match): ValidMatch {
  if (found.kind === 'invalid_request_limit') throw new InvalidRequest(found.problem);
  return found;
}

function checkHeld(matched: readonly MatchedDescriptor[], minHits: number): void {
  for (const [at, { found, hits }] of matched.entries()) {
    if (found.kind !== 'limited' || found.id === undefined) continue;
    if (found.id === '') throw new InvalidRequest(`descriptors[${at}]: the id must not be empty`);
    if (hits < minHits) throw new InvalidRequest(`descriptors[${at}]: hits must be at least ${minHits}, got ${hits}`);
  }
}

interface DebitPlanning {
  readonly planner: Planner;
  readonly door: Door;
  /** Maximum time to hold the request. */
  readonly maxHoldMs: number;
  readonly quotaMode: boolean;
  readonly domain: string;
  readonly spend: Spend;
}

function createDebits(matched: readonly MatchedDescriptor[], planning: DebitPlanning): Debit[] | undefined {
  const { planner, door } = planning;
  let debits: Debit[] | undefined;
  for (const descriptor of matched) {
    const { found } = descriptor;
    if (!isUsed(found, door)) continue;
    const holder = found.id === undefined ? undefined : chooseHolder(hashHolder(found.id), descriptor);
    const holding = { descriptor, found, holder };
    const metered = findMetered(planner, found);
    for (const one of found.limits) {
      if (!usesLimit(door, found, one)) continue;
      const debit = createLimitDebit(one, holding, planning);
      debits = appended(
        debits,
        one === metered ? meteredDebit(debit, planner, { domain: planning.domain, ...found }) : debit,
      );
    }
  }
  return debits;
}

/** A descriptor that has limits, and who holds its hits. */
interface Holding {
  readonly descriptor: MatchedDescriptor;
  readonly found: LimitedMatch;
  /** Undefined if its hits are counted without an id. */
  readonly holder: number | undefined;
}

function createLimitDebit(one: RuleLimit, { descriptor, found, holder }: Holding, planning: DebitPlanning): Debit {
  const { planner, door, domain, maxHoldMs } = planning;
  const { limit, policy } = one;
  const { children, threshold } = found;
  const hits = amountUnder(limit, descriptor);
  const counter = planner.counters(limit, domain, found.entries);
  const counted = { limit: capDelay(limit, maxHoldMs), policy };
  const commits = door.hits === 'committed' || (found.commits && holder !== undefined);
  const { outcome } = descriptor;
  const refuses = !policy.shadow && !planner.shadowMode && !policy.quota && !planning.quotaMode;
  if (policy.watches)
    return createDebit(counter, counted, 0, refuses && door.hits === 'asked' && hits >= 0 && !isResponse(descriptor));
  const reports = door.hits === 'reported' && !outcome; // others state what they are
  let debit: Debit;
  if (commits || (reports && hits > 0)) debit = usedDebit(counter, counted, hits, planner.estimates);
  else {
    const asked = holder === undefined ? hits : atLeast(limit, counter, hits, planner.estimates);
    const charges = policy.charge === 'always' && planning.spend === 'each';
    debit = outcome
      ? outcomeDebit(counter, counted, { hits, outcome, refuses })
      : createDebit(counter, counted, door.hits === 'returned' ? -asked : asked, refuses, charges);
  }
  const counts = Math.abs(hits);
  if (debit.hits < counts && !limitsInFlight(limit))
    planner.onBounded?.({ rule: found.rule, entries: found.entries, limit, hits: counts, counted: debit.hits });
  if (holder !== undefined)
    debit = withStatus(heldBy(debit, { holder, commits, threshold }), door.hits === 'returned' ? -hits : hits);
  if (children) debit = sharedBy(debit, claimShare(limit, children));
  if (reports && hits > 0) return { ...debit, kind: 'charge' };
  if (door.peeks?.(limit)) return { ...debit, kind: 'peek', hits: limitsInFlight(limit) ? 1 : debit.hits };
  return debit;
}

/** @throws TooCostly  the store would work on the debits for too long */
function chargeSteps(debits: readonly Debit[], work: RequestWork): void {
  for (let at = 1; at < debits.length; at++) work.add(stepWork(debits[at] as Debit)); // in range
  if (work.units === 0 || measureWork(debits) <= MAX_REQUEST_WORK) return;
  throw new TooCostly('the request names too many counters with a long state');
}

/** Whether a match has limits, and an id if the door goes by ids alone. */
const isUsed = (found: ValidMatch, { minHeldHits }: Door): found is LimitedMatch =>
  found.kind === 'limited' && (minHeldHits === undefined || found.id !== undefined);

/** What an operator puts in the place of limits that are used by id is used as well. */
const usesLimit = ({ uses, minHeldHits }: Door, { overridden }: LimitedMatch, { limit }: RuleLimit): boolean =>
  !uses || uses(limit) || (overridden === true && minHeldHits !== undefined);

/** The descriptors with the limits that a door uses, and those that an operator exempts; all, if it uses all of them. */
function onlyUsed(matched: readonly MatchedDescriptor[], door: Door): readonly MatchedDescriptor[] {
  if (!door.uses) return matched;
  return matched.flatMap((one): readonly MatchedDescriptor[] => {
    const { found } = one;
    if (found.kind === 'unlimited' && found.exempt) return [one];
    if (!isUsed(found, door)) return [];
    const limits = found.limits.filter((limit) => usesLimit(door, found, limit));
    return limits.length === 0 ? [] : [{ ...one, found: { ...found, limits } }];
  });
}
