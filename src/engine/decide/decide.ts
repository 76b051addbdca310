import { after, type Eventual } from '../../base/later.ts';
import { RequestWork } from '../../base/request-work.ts';
import type { Decision, LimitLabel, LimitPolicy } from '../algorithms/limit.ts';
import { StoreUnavailable } from '../backends/backend.ts';
import type { Limit } from '../holds/limits.ts';
import type { Entries, LedgerEntry } from '../ledger/debit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type StoreBudget, storeCall } from '../ledger/store-budget.ts';
import type { Counted, Match, Miss } from '../rules/match/match.ts';
import type { Rule, RuleLimit } from '../rules/match/tree.ts';
import { asPassed, isResponse } from './outcomes.ts';
import {
  type Arrival,
  ASKS,
  type MatchedDescriptor,
  type Plan,
  type Planner,
  planRequest,
  type RateLimitRequest,
  type RequestDescriptor,
} from './plan.ts';
import { addedTo, amountUnder } from './priced.ts';
import { endInTime, retryAfterMs } from './retry.ts';
import type { Unmet } from './unmet.ts';

export {
  InvalidRequest,
  type RateLimitRequest,
  type RequestDescriptor,
  RulesNotLoaded,
} from './plan.ts';

/** The answer for one descriptor. */
export type Verdict =
  | Miss
  | { readonly kind: 'unlimited'; readonly rule: Rule /** By an override. */; readonly exempt?: true }
  | {
      readonly kind: 'limited';
      readonly rule: Rule;
      /** The keys under which statistics are kept: see `Match`. */
      readonly levels: readonly string[];
      /** What names its counter, and whether an override decides: see `Match`. */
      readonly found: Counted & Pick<Extract<Match, { kind: 'limited' }>, 'overridden'>;
      /** The tightest of the limits that apply, its label and policy, and its algorithm's decision. */
      readonly limit: Limit;
      readonly label: LimitLabel;
      readonly policy: LimitPolicy;
      readonly decision: LedgerEntry;
      /** What the limit counts: hits, or billionths of its currency for a budget. */
      readonly hits: number;
      /** The code for the caller: the decision's, but OK if the limit is in shadow mode. */
      readonly code: Code;
      /** Further limits in shadow mode that would have refused; undefined if there are none. */
      readonly shadowRefusals?: readonly ShadowRefusal[] | undefined;
      /** All limits that apply, if several do, and `Decider.reportsEveryLimit` is set or the request has an id. */
      readonly applied?: readonly AppliedLimit[] | undefined;
      /** A less tight verdict on the same descriptor: that of its rule, or of a requirement that is not met. */
      readonly beside?: Limited;
    };

/** A verdict with a limit. */
export type Limited = Extract<Verdict, { kind: 'limited' }>;

/** The verdicts on a descriptor that have a limit: the one that is shown, and those beside it. */
export const limitedBy = (shown: Verdict | undefined): readonly Limited[] =>
  shown?.kind === 'limited' ? [shown, ...limitedBy(shown.beside)] : [];

/** A limit, and its algorithm's decision. */
interface AppliedLimit extends RuleLimit {
  readonly decision: LedgerEntry;
}

/** A limit in shadow mode that would have refused. */
interface ShadowRefusal extends OtherDecision {
  readonly label: LimitLabel;
  /** What this limit counts: see the verdict's. */
  readonly hits: number;
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
  /** How long to hold the answer until its turn; 0 if it is refused. Requests in shadow mode are never held. */
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
export interface Decider extends Planner {
  readonly ledger: Pick<Ledger, 'debit'> & Partial<Pick<Ledger, 'recall'>>;
  readonly storeBudget: StoreBudget;
  /** Whether verdicts report every limit of a rule. Default: only the tightest. */
  readonly reportsEveryLimit?: boolean;
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
  return decideFor(request, decider, { callerTimeoutMs, work, door: ASKS });
}

/** Decides as `decide`, for a caller that uses limits in its own way. @internal */
export function decideFor(request: RateLimitRequest, decider: Decider, arrival: Arrival): Eventual<Answer> {
  const plan = planRequest(request, decider, arrival);
  const how = storeCall(plan.spend, decider.storeBudget, arrival.callerTimeoutMs);
  const entries = plan.debits ? decider.ledger.debit(plan.debits, how) : [];
  return after(entries, buildAnswer, { plan, decider, asked: request.descriptors.length });
}

/** Decides a request that is known to be refused, without the store; undefined if it is not. Throws as `decide`. @internal */
export function decideKnown(request: RateLimitRequest, decider: Decider, work: RequestWork): Answer | undefined {
  const plan = planRequest(request, decider, { callerTimeoutMs: 0, work, door: ASKS });
  const entries = plan.debits && !plan.unmet && decider.ledger.recall?.(plan.debits, plan.spend);
  return entries ? combine(plan, available(entries, plan), decider) : undefined;
}

/** The planned debits, and the context of their decision. */
interface OpenDecision {
  readonly plan: Plan;
  readonly decider: Decider;
  /** The number of descriptors of the request, before those of requirements that it does not meet. */
  readonly asked: number;
}

function buildAnswer(known: Entries, { plan, decider, asked }: OpenDecision): Answer {
  const answer = combine(plan, available(known, plan), decider);
  return plan.unmet ? withUnmet(answer, plan.unmet, asked) : answer;
}

function withUnmet(answer: Answer, unmet: Unmet, length: number): Answer {
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

function available(answered: Entries, { domain, matched }: Plan): readonly LedgerEntry[] {
  for (const answer of answered)
    if (answer.code === 'UNAVAILABLE')
      throw new CountersUnavailable(answer.reason, domain, matched, answer.isOverload === true);
  return answered as readonly LedgerEntry[]; // all are decisions, as just checked
}

/** Assigns the decisions, which are in the order of the debits, to their descriptors. @internal */
export function combine(
  { matched, repeated, quotaMode }: Pick<Plan, 'matched' | 'repeated' | 'quotaMode'>,
  known: readonly LedgerEntry[],
  modes: Pick<Decider, 'shadowMode' | 'clock' | 'reportsEveryLimit'>,
): Answer {
  let decisions = known;
  let cut: LedgerEntry[] | undefined;
  let next = 0;
  let delayMs = 0;
  const verdicts = matched.map((descriptor): Verdict => {
    const { found, priced } = descriptor;
    if (found.kind !== 'limited') return found;
    const { rule, levels, limits } = found;
    if (priced?.isAdded || isResponse(descriptor)) {
      cut ??= known.slice();
      const changed = priced?.isAdded ? addedTo : asPassed;
      for (let at = next; at < next + limits.length; at++) cut[at] = changed(decisionAt(cut, at));
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
    const shadowRefusals = limits.length > 1 ? findShadowRefusals(descriptor, decisions, first, shown) : undefined;
    const code = policy.shadow ? 'OK' : decision.code;
    const reportsAll = limits.length > 1 && (modes.reportsEveryLimit || found.id !== undefined);
    const applied = reportsAll ? listApplied(limits, decisions, first) : undefined;
    const isAsked = descriptor.outcome === 'asks' && decision.code === 'OK'; // only its response counts
    const hits = isAsked ? 0 : amountUnder(limit, descriptor);
    const verdict = { kind: 'limited', rule, levels, found, limit, label, policy, decision, hits, code } as const;
    return shadowRefusals || applied ? { ...verdict, shadowRefusals, applied } : verdict;
  });
  const { shadowMode, clock } = modes;
  const refused = isRefused(matched, verdicts, quotaMode);
  return {
    overallCode: refused && !shadowMode ? 'OVER_LIMIT' : 'OK',
    verdicts,
    shadowed: refused && shadowMode,
    delayMs: refused || shadowMode ? 0 : delayMs,
    retryAfterMs: refused && !shadowMode ? retryAfterMs({ matched, decisions, repeated, quotaMode, clock }) : undefined,
  };
}

/**
 * Limits that may refuse come before those in shadow mode, and a rule's own before those of other rules; of two
 * refusals, an ordinary limit's before a quota's; then the tighter limit.
 */
function goesBefore(policy: LimitPolicy, decision: Decision, other: LimitPolicy, ofOther: Decision): boolean {
  if (policy.shadow !== other.shadow) return other.shadow === true;
  if (policy.watches !== other.watches && decision.code === ofOther.code) return other.watches === true;
  const areRefusals = decision.code === 'OVER_LIMIT' && ofOther.code === 'OVER_LIMIT';
  if (areRefusals && policy.quota !== other.quota) return other.quota === true;
  return isTighter(decision, ofOther);
}

/** Refused before passed, then the longer wait, then soft before not, then fewer hits left. */
function isTighter(one: Decision, other: Decision): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.retryAfterMs !== other.retryAfterMs) return one.retryAfterMs > other.retryAfterMs;
  if (one.soft !== other.soft) return one.soft;
  return one.limitRemaining < other.limitRemaining;
}

// the ledger returns one decision per debit
const decisionAt = (decisions: readonly LedgerEntry[], at: number): LedgerEntry => decisions[at] as LedgerEntry;

/** @param first  the index of the first decision on these limits */
function findShadowRefusals(
  descriptor: MatchedDescriptor,
  decisions: readonly LedgerEntry[],
  first: number,
  shown: number,
): readonly ShadowRefusal[] | undefined {
  if (descriptor.found.kind !== 'limited') return undefined;
  let refusals: ShadowRefusal[] | undefined;
  for (const [at, { limit, label, policy }] of descriptor.found.limits.entries()) {
    const decision = decisionAt(decisions, first + at);
    if (!policy.shadow || first + at === shown || decision.code === 'OK') continue;
    refusals ??= [];
    refusals.push({ limit, label, decision, hits: amountUnder(limit, descriptor) });
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
