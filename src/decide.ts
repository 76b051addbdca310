import { algorithmFor, heldLimit, type Limit } from './algorithms/index.ts';
import type { Decision, LimitLabel, LimitPolicy, Spend } from './algorithms/limit.ts';
import { appended } from './appended.ts';
import { StoreUnavailable } from './backends/backend.ts';
import type { Counter, Counters } from './backends/key.ts';
import type { Clock } from './clock.ts';
import { after, type Eventual } from './later.ts';
import { type Debit, debitOf } from './ledger/debit.ts';
import type { Entries } from './ledger/entry.ts';
import type { Estimates } from './ledger/estimates.ts';
import { holderOf } from './ledger/holder.ts';
import type { Ledger } from './ledger/ledger.ts';
import type { Overrides } from './overrides.ts';
import { type Descriptor, type Match, type Miss, matchAll } from './rules/match.ts';
import type { Rule, RuleLimit, RuleTree } from './rules/tree.ts';

/** What a caller asks: may this request, counted by these descriptors, pass? */
export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly RequestDescriptor[];
}

export interface RequestDescriptor extends Descriptor {
  /** Whole hits that this descriptor counts: 0 peeks, a negative number gives hits back. */
  readonly hits: number;
}

/** The answer for one descriptor. */
export type Verdict =
  | Miss
  | { readonly kind: 'unlimited'; readonly rule: Rule }
  | {
      readonly kind: 'limited';
      readonly rule: Rule;
      /** What statistics are kept under: see `Match`. */
      readonly levels: readonly string[];
      /** The tightest of the limits that apply, how it is shown, and what its algorithm said. */
      readonly limit: Limit;
      readonly label: LimitLabel;
      readonly policy: LimitPolicy;
      readonly decision: Decision;
      readonly hits: number;
      /** The code for the caller: the decision's, but OK if the limit is in shadow mode. */
      readonly code: Code;
      /** Limits in shadow mode, beside the one that is shown, that would have refused; undefined: none. */
      readonly shadowRefusals?: readonly ShadowRefusal[] | undefined;
      /** All limits that apply, if there are several and `Decider.reportsEveryLimit`, or the request has an id. */
      readonly applied?: readonly AppliedLimit[] | undefined;
    };

/** A limit, and what its algorithm decided. */
export interface AppliedLimit extends RuleLimit {
  readonly decision: Decision;
}

/** A limit in shadow mode that would have refused. */
export interface ShadowRefusal extends OtherDecision {
  readonly label: LimitLabel;
}

/** A limit that is not shown. */
export interface OtherDecision {
  readonly limit: Limit;
  readonly decision: Decision;
}

export type Code = Decision['code'];

export interface Answer {
  readonly overallCode: Code;
  /** One a descriptor, in the request's order. */
  readonly verdicts: readonly Verdict[];
  /** The service as a whole is in shadow mode, and that alone made the answer OK. */
  readonly shadowed: boolean;
  /**
   * How long to hold the answer, so that the request takes its turn; 0 where it is refused. Requests in shadow mode are
   * never held.
   */
  readonly delayMs: number;
}

/** What the service decides with. Everything but the request; the same for all requests between two reloads. */
export interface Decider {
  /** Undefined until rules have been loaded for the first time. */
  readonly rules: () => RuleTree | undefined;
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly counters: Counters;
  /** This process's: it says which limits of a schedule apply. */
  readonly clock: Clock;
  /** The longest that the store may take, whatever the caller's own deadline. */
  readonly storeTimeoutMs: number;
  /** Answer OK where OVER_LIMIT is meant. */
  readonly shadowMode: boolean;
  /** Every rule is a quota rule. */
  readonly quotaMode: boolean;
  /** What a request spends that a limit refuses, where its domain does not say. */
  readonly spend: Spend;
  /** Verdicts report every limit of a rule, not only the tightest; absent: they do not. */
  readonly reportsEveryLimit?: boolean;
  /** What requests have used; absent: nothing is known. */
  readonly estimates?: Estimates;
  /** What operators have set for single descriptors; absent: nothing. */
  readonly overrides?: Overrides;
}

/** What of a caller's deadline is kept for the answer to travel, when a request is held. */
const HOLD_MARGIN_MS = 5;

/** The caller broke the contract: what is wrong with the request, in words for its author. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
}

/** Nothing can be decided yet: no rule file has been right so far. */
export class RulesNotLoaded extends Error {
  override readonly name = 'RulesNotLoaded';
}

/** The counters could not be reached in time. What had been asked of them is counted all the same. */
export class CountersUnavailable extends StoreUnavailable {
  readonly domain: string;
  /** One a descriptor, in the request's order. */
  readonly asked: readonly MatchedDescriptor[];
  /** Since this process was late, not the store. */
  readonly isProcessLate: boolean;
  constructor(reason: string, domain: string, asked: readonly MatchedDescriptor[], isProcessLate = false) {
    super(reason);
    this.domain = domain;
    this.asked = asked;
    this.isProcessLate = isProcessLate;
  }
}

/**
 * The whole service: match every descriptor, debit every limit found in one atomic step, combine. Without a promise
 * where the ledger answers without one.
 *
 * @param callerTimeoutMs  what is left of the caller's deadline
 * @throws InvalidRequest    no domain, no descriptors, or a request limit that is none
 * @throws RulesNotLoaded    before the first rules
 * @throws CountersUnavailable         the counters could not be reached in time
 */
export function decide(request: RateLimitRequest, decider: Decider, callerTimeoutMs: number): Eventual<Answer> {
  if (request.domain === '') throw new InvalidRequest('rate limit domain must not be empty');
  if (request.descriptors.length === 0) throw new InvalidRequest('rate limit descriptor list must not be empty');
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');

  const matches = matchesOf(request, rules, decider);
  const asked = matches.map(
    (found, at): MatchedDescriptor => ({ found: valid(found), hits: request.descriptors[at]?.hits ?? 0 }),
  );
  const maxHoldMs = Math.max(Math.floor(callerTimeoutMs) - HOLD_MARGIN_MS, 0);
  let debits: Debit[] | undefined;
  const spend = rules.domains.get(request.domain)?.spend ?? decider.spend;
  for (const one of asked) debits = withDebits(debits, one, request.domain, spend, decider, maxHoldMs);
  const timeoutMs = Math.min(callerTimeoutMs, decider.storeTimeoutMs);
  const entries = debits ? decider.ledger.debit(debits, { spend, timeoutMs }) : [];
  return after(entries, answerOf, { asked, domain: request.domain, decider });
}

/** What was asked of the ledger, and with what. */
interface OpenDecision {
  readonly asked: readonly MatchedDescriptor[];
  readonly domain: string;
  readonly decider: Decider;
}

const answerOf = (known: Entries, { asked, domain, decider }: OpenDecision): Answer =>
  combine(asked, available(known, domain, asked), decider);

/** What applies to each descriptor of a request: what operators have set for it, else its rule. */
export function matchesOf(
  { domain, descriptors }: RateLimitRequest,
  rules: RuleTree,
  { overrides, clock }: Pick<Decider, 'overrides' | 'clock'>,
): readonly Match[] {
  const matches = matchAll(rules, domain, descriptors, clock);
  if (!overrides || overrides.size === 0) return matches;
  return matches.map((found, at) => overrides.apply(found, domain, descriptors[at]?.entries ?? []));
}

type ValidMatch = Exclude<Match, { kind: 'invalid_request_limit' }>;

/** What the rules say of a descriptor, and the hits that it counts. */
export interface MatchedDescriptor {
  readonly found: ValidMatch;
  readonly hits: number;
}

function valid(found: Match): ValidMatch {
  if (found.kind === 'invalid_request_limit') throw new InvalidRequest(found.problem);
  return found;
}

function withDebits(
  before: Debit[] | undefined,
  { found, hits }: MatchedDescriptor,
  domain: string,
  spend: Spend,
  decider: Decider,
  maxHoldMs: number,
): Debit[] | undefined {
  if (found.kind !== 'limited') return before;
  let debits = before;
  const { counters, quotaMode, shadowMode } = decider;
  const holder = found.id === undefined ? undefined : holderOf(found.id);
  for (const { limit, policy } of found.limits) {
    const blocks = !policy.shadow && !shadowMode && !policy.quota && !quotaMode;
    const counter = counters(limit, domain, found.entries);
    const charges = policy.charge === 'always' && spend === 'each';
    // no turn is reserved that would come after the caller has gone
    const capped = algorithmFor(limit).capDelay?.(limit, maxHoldMs) ?? limit;
    if (holder === undefined) {
      debits = appended(debits, debitOf(counter, { limit: capped, policy }, hits, blocks, charges));
      continue;
    }
    const own = { limit: heldLimit(capped, holder), policy };
    const debit = found.commits
      ? usedDebit(counter, own, hits, decider.estimates)
      : debitOf(counter, own, atLeast(limit, counter, hits, decider.estimates), blocks, charges);
    debits = appended(debits, debit);
  }
  return debits;
}

/** The hits that are asked for, or more, where the limit requires more: but for peeks, and hits that are given back. */
export function atLeast(limit: Limit, { key }: Counter, hits: number, estimates: Estimates | undefined): number {
  if (hits <= 0) return hits;
  return Math.max(hits, algorithmFor(limit).atLeast?.(limit, () => estimates?.of(key)) ?? 0);
}

/** Charges what a request has used. Never refuses. @param hits  their sign means nothing */
export function usedDebit(
  counter: Counter,
  one: Pick<RuleLimit, 'limit' | 'policy'>,
  hits: number,
  estimates: Estimates | undefined,
): Debit {
  // a request that failed says nothing of what others use
  if (hits !== 0 && algorithmFor(one.limit).learns?.(one.limit)) estimates?.note(counter.key, Math.abs(hits));
  return { ...debitOf(counter, one, hits, false), kind: 'spend' }; // 0 hits are no peek
}

function available(answered: Entries, domain: string, asked: readonly MatchedDescriptor[]): readonly Decision[] {
  for (const answer of answered)
    if (answer.code === 'UNAVAILABLE')
      throw new CountersUnavailable(answer.reason, domain, asked, answer.isProcessLate === true);
  return answered as readonly Decision[]; // all are, by now
}

/** Puts the decisions, which come in the order of the hits, back to the descriptors they belong to. */
function combine(asked: readonly MatchedDescriptor[], known: readonly Decision[], modes: Decider): Answer {
  let decisions = known;
  let next = 0;
  let delayMs = 0;
  const verdicts = asked.map(({ found, hits }): Verdict => {
    if (found.kind !== 'limited') return found;
    const { rule, levels, limits } = found;
    if (rule.schedule !== undefined) decisions = endInTime(decisions, limits, next, modes.clock());
    const first = next;
    let shown = first;
    for (const { policy } of limits) {
      const decision = decisionAt(decisions, next);
      const shownPolicy = (limits[shown - first] as RuleLimit).policy; // one of its own
      if (next > first && goesBefore(policy, decision, shownPolicy, decisionAt(decisions, shown))) shown = next;
      if (!policy.shadow) delayMs = Math.max(delayMs, decision.delayMs);
      next++;
    }
    const decision = decisionAt(decisions, shown);
    const { limit, label, policy } = limits[shown - first] as RuleLimit; // one of its own
    const shadowRefusals = limits.length > 1 ? shadowRefusalsOf(limits, decisions, first, shown) : undefined;
    const code = policy.shadow ? 'OK' : decision.code;
    const reportsAll = limits.length > 1 && (modes.reportsEveryLimit || found.id !== undefined);
    const applied = reportsAll ? appliedOf(limits, decisions, first) : undefined;
    return { kind: 'limited', rule, levels, limit, label, policy, decision, hits, code, shadowRefusals, applied };
  });
  const refused = isRefused(asked, verdicts, modes.quotaMode);
  return {
    overallCode: refused && !modes.shadowMode ? 'OVER_LIMIT' : 'OK',
    verdicts,
    shadowed: refused && modes.shadowMode,
    delayMs: refused || modes.shadowMode ? 0 : delayMs,
  };
}

// a store gives one a hit
const decisionAt = (decisions: readonly Decision[], at: number): Decision => decisions[at] as Decision;

/** @param first  where the decisions on these limits begin */
function endInTime(
  decisions: readonly Decision[],
  limits: readonly RuleLimit[],
  first: number,
  nowMs: number,
): readonly Decision[] {
  return decisions.map((decision, at) => endingAt(decision, limits[at - first]?.endsAtMs, nowMs));
}

/**
 * The decision, but it promises nothing beyond the limit's end: another limit applies then.
 *
 * @param endsAtMs  undefined: the limit does not end
 */
export function endingAt(decision: Decision, endsAtMs: number | undefined, nowMs: number): Decision {
  if (endsAtMs === undefined) return decision;
  const leftMs = Math.max(endsAtMs - nowMs, 1);
  const { durationUntilResetMs, retryAfterMs } = decision;
  return {
    ...decision,
    durationUntilResetMs: Math.min(durationUntilResetMs, leftMs),
    retryAfterMs: Math.min(retryAfterMs, leftMs),
  };
}

/**
 * Limits that may refuse before those in shadow mode; of refusals, one by itself before a quota; then the tighter
 * limit.
 */
function goesBefore(policy: LimitPolicy, decision: Decision, other: LimitPolicy, ofOther: Decision): boolean {
  if (policy.shadow !== other.shadow) return other.shadow === true;
  const areRefusals = decision.code === 'OVER_LIMIT' && ofOther.code === 'OVER_LIMIT';
  if (areRefusals && policy.quota !== other.quota) return other.quota === true;
  return isTighter(decision, ofOther);
}

/** @param first  where the decisions on these limits begin */
function shadowRefusalsOf(
  limits: readonly RuleLimit[],
  decisions: readonly Decision[],
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

/** @param first  where the decisions on these limits begin */
const appliedOf = (
  limits: readonly RuleLimit[],
  decisions: readonly Decision[],
  first: number,
): readonly AppliedLimit[] =>
  limits.map(({ limit, label, policy }, at) => ({ limit, label, policy, decision: decisionAt(decisions, first + at) }));

/** Refused before passed, then the longer wait, then flagged before not, then the fewer hits left. */
function isTighter(one: Decision, other: Decision): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.retryAfterMs !== other.retryAfterMs) return one.retryAfterMs > other.retryAfterMs;
  if (one.soft !== other.soft) return one.soft;
  return one.limitRemaining < other.limitRemaining;
}

/**
 * One ordinary limit that is exceeded refuses; quotas refuse only when all of them are exceeded, where those of one
 * descriptor are one. With quota mode for all, what matched no rule is a quota that is left, while an unlimited rule
 * says nothing either way.
 */
function isRefused(asked: readonly MatchedDescriptor[], verdicts: readonly Verdict[], quotaMode: boolean): boolean {
  let quotas = 0;
  let overQuotas = 0;
  for (const [at, verdict] of verdicts.entries()) {
    if (verdict.kind === 'unlimited') continue;
    const isLimited = verdict.kind === 'limited';
    const isOver = isLimited && verdict.code === 'OVER_LIMIT';
    if (isOver && !quotaMode && !verdict.policy.quota) return true;
    if (quotaMode || (isLimited && hasQuota(asked[at]))) {
      quotas++;
      if (isOver) overQuotas++;
    }
  }
  return quotas > 0 && overQuotas === quotas;
}

function hasQuota(asked: MatchedDescriptor | undefined): boolean {
  if (asked?.found.kind !== 'limited') return false;
  for (const { policy } of asked.found.limits) if (policy.quota) return true;
  return false;
}
