import type { Clock } from '../../base/clock.ts';
import { after, type Eventual } from '../../base/later.ts';
import { RequestWork, TooCostly } from '../../base/request-work.ts';
import type { Decision, LimitLabel, LimitPolicy, Spend } from '../algorithms/limit.ts';
import { StoreUnavailable } from '../backends/backend.ts';
import type { Counters } from '../backends/key.ts';
import { MAX_REQUEST_WORK, measureWork, stepWork } from '../backends/store-work.ts';
import { hashHolder } from '../holds/claim.ts';
import { claimShare } from '../holds/fair-share.ts';
import { capDelay, type Limit } from '../holds/limits.ts';
import {
  createDebit,
  type Debit,
  type Entries,
  heldBy,
  type LedgerEntry,
  sharedBy,
  withStatus,
} from '../ledger/debit.ts';
import { atLeast, type Estimates, usedDebit } from '../ledger/estimates.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type StoreBudget, storeCall } from '../ledger/store-budget.ts';
import { type Descriptor, type Match, type Miss, matchAll } from '../rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../rules/match/tree.ts';
import { appended } from './appended.ts';
import { findMetered, meteredDebit } from './metered.ts';
import type { Overrides } from './overrides.ts';
import { addedTo, amountUnder, chooseHolder, type Priced, withPrices } from './priced.ts';
import { endInTime, type RepeatedCounters, repeatedCounters, retryAfterMs } from './retry.ts';
import { goesBefore } from './tightest.ts';
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

/** The answer for one descriptor. */
export type Verdict =
  | Miss
  | { readonly kind: 'unlimited'; readonly rule: Rule }
  | {
      readonly kind: 'limited';
      readonly rule: Rule;
      /** The keys under which statistics are kept: see `Match`. */
      readonly levels: readonly string[];
      /** The tightest of the limits that apply, its label and policy, and its algorithm's decision. */
      readonly limit: Limit;
      readonly label: LimitLabel;
      readonly policy: LimitPolicy;
      readonly decision: LedgerEntry;
      /** What the limit counts: hits, or of a budget billionths of its currency. */
      readonly hits: number;
      /** The code for the caller: the decision's, but OK if the limit is in shadow mode. */
      readonly code: Code;
      /** Further limits in shadow mode that would have refused; undefined if there are none. */
      readonly shadowRefusals?: readonly ShadowRefusal[] | undefined;
      /**
       * All limits that apply, if there are several, and `Decider.reportsEveryLimit` is set or the request has an id.
       */
      readonly applied?: readonly AppliedLimit[] | undefined;
      /** A less tight verdict on the same descriptor: that of its rule, or of a requirement that is not met. */
      readonly beside?: Extract<Verdict, { kind: 'limited' }>;
    };

/** A limit, and its algorithm's decision. */
interface AppliedLimit extends RuleLimit {
  readonly decision: LedgerEntry;
}

/** A limit in shadow mode that would have refused. */
interface ShadowRefusal extends OtherDecision {
  readonly label: LimitLabel;
}

/** A limit that the verdict does not show. */
export interface OtherDecision {
  readonly limit: Limit;
  readonly decision: LedgerEntry;
}

export type Code = Decision['code'];

export interface Answer {
  readonly overallCode: Code;
  /** One per descriptor, in the request's order. */
  readonly verdicts: readonly Verdict[];
  /** Whether the answer is OK only because the service as a whole is in shadow mode. */
  readonly shadowed: boolean;
  /**
   * How long to hold the answer, so that the request takes its turn; 0 if it is refused. Requests in shadow mode are
   * never held.
   */
  readonly delayMs: number;
  /**
   * How long until the refused request could pass if it were sent again, without other traffic or changes of rules;
   * `NEVER_MS` if it never can, absent if it passed. An estimate where holds, leases, shared limits, cached refusals or
   * failure policies decide.
   */
  readonly retryAfterMs?: number | undefined;
  /** What the request lacks of the keys that `require` lists; absent if nothing. */
  readonly unmet?: Unmet;
}

/** The dependencies of decisions, which are the same for all requests between two reloads. @internal */
export interface Decider {
  /** Undefined until the first rules have been loaded. */
  readonly rules: () => RuleTree | undefined;
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly counters: Counters;
  /** This process's clock, which determines the limits of a schedule that apply. */
  readonly clock: Clock;
  readonly storeBudget: StoreBudget;
  /** Answer OK instead of OVER_LIMIT. */
  readonly shadowMode: boolean;
  /** Every rule is a quota rule. */
  readonly quotaMode: boolean;
  /** The spending mode of domains that do not set one: what a request spends if a limit refuses it. */
  readonly spend: Spend;
  /** Whether verdicts report every limit of a rule. Default: only the tightest. */
  readonly reportsEveryLimit?: boolean;
  /** Estimates from the usage of earlier requests, if any. */
  readonly estimates?: Estimates;
  /** Operators' overrides for single descriptors, if any. */
  readonly overrides?: Overrides;
  /** Whether the hits of each rule's longest limit are usage. Default: false. */
  readonly metersUsage?: boolean;
  /** Charges the work of requests whose callers do not: see `RequestWork`. */
  readonly onWork?: (units: number) => void;
}

/** The part of a caller's deadline that is reserved for sending the answer, if a request is held. */
const HOLD_MARGIN_MS = 5;

/** The request is invalid; the message explains the problem to its author. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
}

/** No decision is possible: no valid rules have been loaded yet. */
export class RulesNotLoaded extends Error {
  override readonly name = 'RulesNotLoaded';
}

/** The counters did not answer in time. The debits sent to them may have been counted nevertheless. */
export class CountersUnavailable extends StoreUnavailable {
  readonly domain: string;
  /** One per descriptor, in the request's order. */
  readonly matched: readonly MatchedDescriptor[];
  /** This process could not ask the store in time, which may be healthy. */
  readonly isOverload: boolean;
  constructor(reason: string, domain: string, matched: readonly MatchedDescriptor[], isOverload = false) {
    super(reason);
    this.domain = domain;
    this.matched = matched;
    this.isOverload = isOverload;
  }
}

/**
 * The whole service: matches every descriptor, debits all matched limits in one atomic step, and combines the
 * decisions. Returns no promise if the ledger answers without one.
 *
 * @param callerTimeoutMs  the time left until the caller's deadline
 * @param work             adds up what the call costs besides reading it
 * @throws TooCostly         nothing has been counted
 * @throws InvalidRequest    no domain, no descriptors, or an invalid request limit
 * @throws RulesNotLoaded    before the first rules
 * @throws CountersUnavailable         the counters did not answer in time
 * @internal
 */
export function decide(
  request: RateLimitRequest,
  decider: Decider,
  callerTimeoutMs: number,
  work: RequestWork = new RequestWork(decider.onWork),
): Eventual<Answer> {
  if (request.domain === '') throw new InvalidRequest('rate limit domain must not be empty');
  if (request.descriptors.length === 0) throw new InvalidRequest('rate limit descriptor list must not be empty');
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');

  const domain = rules.domains.get(request.domain);
  const unmet = domain?.requirements && findUnmet(request, rules, work);
  const matched = matchRequest(unmet ? { ...request, ...unmet } : request, rules, decider, work);
  const modes = unmet?.onlyAt === undefined ? decider : { ...decider, quotaMode: false }; // no quota lets it pass
  const maxHoldMs = Math.max(Math.floor(callerTimeoutMs) - HOLD_MARGIN_MS, 0);
  let debits: Debit[] | undefined;
  const spend = domain?.spend ?? decider.spend;
  for (const one of matched) debits = withDebits(debits, one, request.domain, spend, modes, maxHoldMs);
  if (debits) chargeSteps(debits, work);
  const repeated = debits && repeatedCounters(debits, modes.quotaMode);
  const all = repeated ? debits?.concat(repeated.peeks) : debits;
  const entries = all ? decider.ledger.debit(all, storeCall(spend, decider.storeBudget, callerTimeoutMs)) : [];
  if (unmet) return after(entries, buildUnmetAnswer, { request, matched, decider: modes, repeated, unmet });
  return after(entries, buildAnswer, { matched, domain: request.domain, decider, repeated });
}

/**
 * The debits of a request, independent of one another.
 *
 * @throws TooCostly
 * @throws InvalidRequest
 * @internal
 */
export function requestDebits(request: RateLimitRequest, decider: Decider): readonly Debit[] {
  const rules = decider.rules();
  if (!rules) return [];
  let debits: Debit[] | undefined;
  const counted = { ...request, ...findUnmet(request, rules) };
  for (const one of matchRequest(counted, rules, decider, new RequestWork()))
    debits = withDebits(debits, one, request.domain, 'each', decider, 0);
  return debits ?? [];
}

function matchRequest(
  request: CountedRequest,
  rules: RuleTree,
  decider: Decider,
  work: RequestWork,
): readonly MatchedDescriptor[] {
  const matched: MatchedDescriptor[] = [];
  for (const found of matchDescriptors(request, rules, decider, work))
    matched.push({ found: valid(found), hits: request.descriptors[matched.length]?.hits ?? 0 });
  return withPrices(matched);
}

/** @throws TooCostly  the store would work on the debits for too long */
function chargeSteps(debits: readonly Debit[], work: RequestWork): void {
  for (let at = 1; at < debits.length; at++) work.add(stepWork(debits[at] as Debit)); // in range
  if (work.units === 0 || measureWork(debits) <= MAX_REQUEST_WORK) return;
  throw new TooCostly('the request names too many counters with a long state');
}

/** The requested debits, and the context of their decision. */
interface OpenDecision {
  readonly matched: readonly MatchedDescriptor[];
  readonly domain: string;
  readonly decider: Decider;
  readonly repeated: RepeatedCounters | undefined;
}

const buildAnswer = (known: Entries, { matched, domain, decider, repeated }: OpenDecision): Answer =>
  combine(matched, available(known, domain, matched), repeated, decider);

interface UnmetDecision extends Omit<OpenDecision, 'domain'> {
  readonly request: RateLimitRequest;
  readonly unmet: Unmet;
}

function buildUnmetAnswer(known: Entries, { request, unmet, ...open }: UnmetDecision): Answer {
  const { domain, descriptors } = request;
  const answer = buildAnswer(known, { ...open, domain });
  const { length } = descriptors;
  const [verdicts, counted] = [answer.verdicts.slice(0, length), unmet.descriptors.slice(0, length)];
  for (let at = length; at < answer.verdicts.length; at++) {
    const added = answer.verdicts[at] as Verdict; // in range
    const shown = tighter(added, verdicts[0]);
    if ('rule' in added && 'rule' in shown && shown.rule === added.rule)
      counted[0] = unmet.descriptors[at] as RequestDescriptor;
    verdicts[0] = shown;
  }
  return { ...answer, verdicts, unmet: { ...unmet, descriptors: counted } };
}

/** The tighter of two verdicts on one descriptor, with the other one beside it. */
function tighter(one: Verdict, other: Verdict | undefined): Verdict {
  if (one.kind !== 'limited') return other ?? one;
  if (other?.kind !== 'limited') return one;
  const isOne = goesBefore(one.policy, one.decision, other.policy, other.decision);
  const [first, second] = isOne ? [one, other] : [other, one];
  const beside = first.beside ? (tighter(first.beside, second) as typeof second) : second; // both are limited
  return { ...first, beside };
}

/** A request as it is counted. */
interface CountedRequest extends RateLimitRequest {
  /** See `Unmet`. */
  readonly onlyAt?: number | undefined;
}

const NOT_COUNTED: Miss = { kind: 'no_rule' };

/** The match of each descriptor of a request: an operator's override if there is one, else its rule. @internal */
export function matchDescriptors(
  { domain, descriptors, onlyAt }: CountedRequest,
  rules: RuleTree,
  decider: Pick<Decider, 'overrides' | 'clock' | 'onWork'>,
  work: RequestWork = new RequestWork(decider.onWork),
): readonly Match[] {
  const { overrides, clock } = decider;
  if (onlyAt !== undefined) {
    const only = { domain, descriptors: descriptors.slice(onlyAt, onlyAt + 1) };
    const [found = NOT_COUNTED] = matchDescriptors(only, rules, decider, work);
    return descriptors.map((_, at) => (at === onlyAt ? found : NOT_COUNTED));
  }
  const matches = matchAll(rules, domain, descriptors, clock, work);
  if (!overrides || overrides.size === 0) return matches;
  return matches.map((found, at) => overrides.apply(found, domain, descriptors[at]?.entries ?? []));
}

type ValidMatch = Exclude<Match, { kind: 'invalid_request_limit' }>;

/** The match of a descriptor, and the hits that it counts. */
export interface MatchedDescriptor {
  readonly found: ValidMatch;
  readonly hits: number;
  /** Absent: its hits have no price. */
  readonly priced?: Priced | undefined;
}

function valid(found: Match): ValidMatch {
  if (found.kind === 'invalid_request_limit') throw new InvalidRequest(found.problem);
  return found;
}

function withDebits(
  before: Debit[] | undefined,
  descriptor: MatchedDescriptor,
  domain: string,
  spend: Spend,
  decider: Decider,
  maxHoldMs: number,
): Debit[] | undefined {
  const { found } = descriptor;
  if (found.kind !== 'limited') return before;
  let debits = before;
  const { counters, quotaMode, shadowMode } = decider;
  const holder = found.id === undefined ? undefined : hashHolder(found.id);
  const { children } = found;
  const metered = findMetered(decider, found.limits);
  for (const one of found.limits) {
    const { limit, policy } = one;
    const hits = amountUnder(limit, descriptor);
    const blocks = !policy.shadow && !shadowMode && !policy.quota && !quotaMode;
    const counter = counters(limit, domain, found.entries);
    const charges = policy.charge === 'always' && spend === 'each';
    // reserves no turn after the caller's deadline
    const capped = capDelay(limit, maxHoldMs);
    if (holder === undefined) {
      const own = createDebit(counter, { limit: capped, policy }, hits, blocks, charges);
      const debit = children ? sharedBy(own, claimShare(limit, children)) : own;
      debits = appended(debits, one === metered ? meteredDebit(debit) : debit);
      continue;
    }
    const own = { limit: capped, policy };
    const debit = found.commits
      ? usedDebit(counter, own, hits, decider.estimates)
      : createDebit(counter, own, atLeast(limit, counter, hits, decider.estimates), blocks, charges);
    const claim = { holder: chooseHolder(holder, descriptor), commits: found.commits, threshold: found.threshold };
    const held = withStatus(heldBy(debit, claim));
    const taken = children ? sharedBy(held, claimShare(limit, children)) : held;
    debits = appended(debits, one === metered ? meteredDebit(taken) : taken);
  }
  return debits;
}

function available(answered: Entries, domain: string, matched: readonly MatchedDescriptor[]): readonly LedgerEntry[] {
  for (const answer of answered)
    if (answer.code === 'UNAVAILABLE')
      throw new CountersUnavailable(answer.reason, domain, matched, answer.isOverload === true);
  return answered as readonly LedgerEntry[]; // all are decisions, as just checked
}

/** Assigns the decisions, which are in the order of the debits, to their descriptors. */
function combine(
  matched: readonly MatchedDescriptor[],
  known: readonly LedgerEntry[],
  repeated: RepeatedCounters | undefined,
  modes: Decider,
): Answer {
  let decisions = known;
  let cut: LedgerEntry[] | undefined;
  let next = 0;
  let delayMs = 0;
  const verdicts = matched.map((descriptor): Verdict => {
    const { found, priced } = descriptor;
    if (found.kind !== 'limited') return found;
    const { rule, levels, limits } = found;
    if (priced?.isAdded) {
      cut ??= known.slice();
      for (let at = next; at < next + limits.length; at++) cut[at] = addedTo(decisionAt(cut, at));
      decisions = cut;
    }
    if (rule.schedule !== undefined || limits[0]?.endsAtMs !== undefined) {
      cut ??= known.slice();
      endInTime(cut, limits, next, modes.clock());
      decisions = cut;
    }
    const first = next;
    let shown = first;
    for (const { policy } of limits) {
      const decision = decisionAt(decisions, next);
      const shownPolicy = (limits[shown - first] as RuleLimit).policy; // within its limits
      if (next > first && goesBefore(policy, decision, shownPolicy, decisionAt(decisions, shown))) shown = next;
      if (!policy.shadow) delayMs = Math.max(delayMs, decision.delayMs);
      next++;
    }
    const decision = decisionAt(decisions, shown);
    const { limit, label, policy } = limits[shown - first] as RuleLimit; // within its limits
    const shadowRefusals = limits.length > 1 ? findShadowRefusals(limits, decisions, first, shown) : undefined;
    const code = policy.shadow ? 'OK' : decision.code;
    const reportsAll = limits.length > 1 && (modes.reportsEveryLimit || found.id !== undefined);
    const applied = reportsAll ? listApplied(limits, decisions, first) : undefined;
    const hits = amountUnder(limit, descriptor);
    return { kind: 'limited', rule, levels, limit, label, policy, decision, hits, code, shadowRefusals, applied };
  });
  const { quotaMode, shadowMode, clock } = modes;
  const refused = isRefused(matched, verdicts, quotaMode);
  return {
    overallCode: refused && !shadowMode ? 'OVER_LIMIT' : 'OK',
    verdicts,
    shadowed: refused && shadowMode,
    delayMs: refused || shadowMode ? 0 : delayMs,
    retryAfterMs: refused && !shadowMode ? retryAfterMs({ matched, decisions, repeated, quotaMode, clock }) : undefined,
  };
}

// the ledger returns one decision per debit
const decisionAt = (decisions: readonly LedgerEntry[], at: number): LedgerEntry => decisions[at] as LedgerEntry;

/** @param first  the index of the first decision on these limits */
function findShadowRefusals(
  limits: readonly RuleLimit[],
  decisions: readonly LedgerEntry[],
  first: number,
  shown: number,
): readonly ShadowRefusal[] | undefined {
  let refusals: ShadowRefusal[] | undefined;
  for (const [at, { limit, label, policy }] of limits.entries()) {
    const decision = decisionAt(decisions, first + at);
    if (!policy.shadow || first + at === shown || decision.code === 'OK') continue;
    refusals ??= [];
    refusals.push({ limit, label, decision });
  }
  return refusals;
}

/** @param first  the index of the first decision on these limits */
const listApplied = (
  limits: readonly RuleLimit[],
  decisions: readonly LedgerEntry[],
  first: number,
): readonly AppliedLimit[] =>
  limits.map(({ limit, label, policy }, at) => ({ limit, label, policy, decision: decisionAt(decisions, first + at) }));

/**
 * An ordinary limit that is exceeded refuses. Quotas refuse only if all of them are exceeded; the quotas of one
 * descriptor count as one. If quota mode applies to all rules, a descriptor without a rule counts as a quota with room;
 * an unlimited rule is ignored.
 */
function isRefused(matched: readonly MatchedDescriptor[], verdicts: readonly Verdict[], quotaMode: boolean): boolean {
  let quotas = 0;
  let overQuotas = 0;
  for (const [at, verdict] of verdicts.entries()) {
    if (verdict.kind === 'unlimited') continue;
    const isLimited = verdict.kind === 'limited';
    const isOver = isLimited && verdict.code === 'OVER_LIMIT';
    if (isOver && !quotaMode && !verdict.policy.quota) return true;
    if (quotaMode || (isLimited && hasQuota(matched[at]))) {
      quotas++;
      if (isOver) overQuotas++;
    }
  }
  return quotas > 0 && overQuotas === quotas;
}

function hasQuota(matched: MatchedDescriptor | undefined): boolean {
  if (matched?.found.kind !== 'limited') return false;
  for (const { policy } of matched.found.limits) if (policy.quota) return true;
  return false;
}
