import { algorithmFor, type Limit } from './algorithms/index.ts';
import type { Decision, LimitLabel, Spend } from './algorithms/limit.ts';
import { isPromise, StoreUnavailable } from './backends/backend.ts';
import type { Counters } from './backends/key.ts';
import { type Debit, debitOf } from './ledger/debit.ts';
import type { Entries } from './ledger/entry.ts';
import type { Ledger } from './ledger/ledger.ts';
import { type Descriptor, type Match, matchAll } from './rules/match.ts';
import type { Rule, RuleLimit, RuleTree } from './rules/tree.ts';

/** What a caller asks: may this request, counted by these descriptors, pass? */
export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly RequestDescriptor[];
}

export interface RequestDescriptor extends Descriptor {
  /** Whole hits that this descriptor counts: 0 looks, below 0 gives back. */
  readonly hits: number;
}

/** The answer for one descriptor. */
export type Verdict =
  | { readonly kind: 'no_domain' }
  | { readonly kind: 'no_rule' }
  | { readonly kind: 'unlimited'; readonly rule: Rule }
  | {
      readonly kind: 'limited';
      readonly rule: Rule;
      /** What statistics are kept under: see `Match`. */
      readonly levels: readonly string[];
      /** The tightest of the limits that apply, how it is shown, and what its algorithm said. */
      readonly limit: Limit;
      readonly label: LimitLabel;
      readonly decision: Decision;
      readonly hits: number;
      /** What the caller is told: the decision's, but OK where the rule is in shadow mode. */
      readonly code: Code;
    };

export type Code = Decision['code'];

export interface Answer {
  readonly overallCode: Code;
  /** One a descriptor, in the request's order. */
  readonly verdicts: readonly Verdict[];
  /** The service as a whole is in shadow mode, and that alone made the answer OK. */
  readonly shadowed: boolean;
  /** How long to hold the answer, so that the request takes its turn; 0 where it is refused. Shadow mode holds nobody. */
  readonly delayMs: number;
}

/** What the service decides with. Everything but the request; the same for all requests between two reloads. */
export interface Decider {
  /** Undefined until rules have been loaded for the first time. */
  readonly rules: () => RuleTree | undefined;
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly counters: Counters;
  /** The longest that the store may take, whatever the caller's own deadline. */
  readonly storeTimeoutMs: number;
  /** Answer OK where OVER_LIMIT is meant. */
  readonly shadowMode: boolean;
  /** Every rule is a quota rule. */
  readonly quotaMode: boolean;
  /** What a request spends that a limit refuses, where its domain does not say. */
  readonly spend: Spend;
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
export class Undecided extends StoreUnavailable {
  readonly domain: string;
  /** One a descriptor, in the request's order. */
  readonly asked: readonly Asked[];
  constructor(reason: string, domain: string, asked: readonly Asked[]) {
    super(reason);
    this.domain = domain;
    this.asked = asked;
  }
}

/**
 * The whole service: match every descriptor, debit every limit found in one atomic step, combine. Without a promise where the ledger answers
 * without one.
 *
 * @param callerTimeoutMs  what is left of the caller's deadline
 * @throws InvalidRequest    no domain, no descriptors, or an override that is no limit
 * @throws RulesNotLoaded    before the first rules
 * @throws Undecided         the counters could not be reached in time
 */
export function decide(request: RateLimitRequest, decider: Decider, callerTimeoutMs: number): Answer | Promise<Answer> {
  if (request.domain === '') throw new InvalidRequest('rate limit domain must not be empty');
  if (request.descriptors.length === 0) throw new InvalidRequest('rate limit descriptor list must not be empty');
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');

  const matches = matchAll(rules, request.domain, request.descriptors);
  const asked = matches.map((found, at): Asked => ({ found: valid(found), hits: request.descriptors[at]?.hits ?? 0 }));
  const maxHoldMs = Math.max(Math.floor(callerTimeoutMs) - HOLD_MARGIN_MS, 0);
  const debits: Debit[] = [];
  const spend = rules.domains.get(request.domain)?.spend ?? decider.spend;
  for (const one of asked) addDebits(debits, one, request.domain, spend, decider, maxHoldMs);
  const timeoutMs = Math.min(callerTimeoutMs, decider.storeTimeoutMs);
  const entries = debits.length > 0 ? decider.ledger.debit(debits, { spend, timeoutMs }) : [];
  const answer = (known: Entries): Answer => combine(asked, available(known, request.domain, asked), decider);
  return isPromise(entries) ? entries.then(answer) : answer(entries);
}

type ValidMatch = Exclude<Match, { kind: 'invalid_override' }>;

/** What the rules say of a descriptor, and the hits that it counts. */
export interface Asked {
  readonly found: ValidMatch;
  readonly hits: number;
}

function valid(found: Match): ValidMatch {
  if (found.kind === 'invalid_override') throw new InvalidRequest(found.problem);
  return found;
}

function addDebits(
  into: Debit[],
  { found, hits }: Asked,
  domain: string,
  spend: Spend,
  { counters, quotaMode, shadowMode }: Decider,
  maxHoldMs: number,
): void {
  if (found.kind !== 'limited') return;
  const blocks = !found.rule.shadow && !shadowMode && !found.rule.quota && !quotaMode;
  for (const { limit, policy } of found.limits) {
    const counter = counters(limit, domain, found.entries);
    const charges = policy.charge === 'always' && spend === 'each';
    const held = algorithmFor(limit).capDelay?.(limit, maxHoldMs) ?? limit; // no turn is reserved that would come after the caller has gone
    into.push(debitOf(counter, { limit: held, policy }, hits, blocks, charges));
  }
}

function available(answered: Entries, domain: string, asked: readonly Asked[]): readonly Decision[] {
  for (const answer of answered) if (answer.code === 'UNAVAILABLE') throw new Undecided(answer.reason, domain, asked);
  return answered as readonly Decision[]; // all are, by now
}

/** Puts the decisions, which come in the order of the hits, back to the descriptors they belong to. */
function combine(asked: readonly Asked[], decisions: readonly Decision[], modes: Decider): Answer {
  let next = 0;
  let delayMs = 0;
  const verdicts = asked.map(({ found, hits }): Verdict => {
    if (found.kind !== 'limited') return found;
    const { rule, levels, limits } = found;
    const first = next;
    let shown = first;
    for (const _ of limits) {
      const decision = decisionAt(decisions, next);
      if (isTighter(decision, decisionAt(decisions, shown))) shown = next;
      if (!rule.shadow) delayMs = Math.max(delayMs, decision.delayMs);
      next++;
    }
    const decision = decisionAt(decisions, shown);
    const { limit, label } = limits[shown - first] as RuleLimit; // one of its own
    return { kind: 'limited', rule, levels, limit, label, decision, hits, code: rule.shadow ? 'OK' : decision.code };
  });
  const refused = isRefused(verdicts, modes.quotaMode);
  return {
    overallCode: refused && !modes.shadowMode ? 'OVER_LIMIT' : 'OK',
    verdicts,
    shadowed: refused && modes.shadowMode,
    delayMs: refused || modes.shadowMode ? 0 : delayMs,
  };
}

const decisionAt = (decisions: readonly Decision[], at: number): Decision => decisions[at] as Decision; // a store gives one a hit

/** Refused before passed, then the longer wait, then flagged before not, then the fewer hits left. */
function isTighter(one: Decision, other: Decision): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.retryAfterMs !== other.retryAfterMs) return one.retryAfterMs > other.retryAfterMs;
  if (one.soft !== other.soft) return one.soft;
  return one.limitRemaining < other.limitRemaining;
}

/**
 * One ordinary rule over its limit refuses; quota rules refuse only when all of them are over theirs. With quota mode
 * for all, what matched no rule is a quota that is left, while an unlimited rule says nothing either way.
 */
function isRefused(verdicts: readonly Verdict[], quotaMode: boolean): boolean {
  let quotas = 0;
  let overQuotas = 0;
  for (const verdict of verdicts) {
    if (verdict.kind === 'unlimited') continue;
    const isLimited = verdict.kind === 'limited';
    const isOver = isLimited && verdict.code === 'OVER_LIMIT';
    if (!quotaMode && !(isLimited && verdict.rule.quota)) {
      if (isOver) return true;
    } else {
      quotas++;
      if (isOver) overQuotas++;
    }
  }
  return quotas > 0 && overQuotas === quotas;
}
