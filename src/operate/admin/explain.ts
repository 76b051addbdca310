import { inTurns } from '../../base/slices.ts';
import { rfc3339 } from '../../base/times.ts';
import type { ShownOverride } from '../../edge/http/shapes.ts';
import { type Extras, type GrpcStatus, toStatus } from '../../edge/rls/service.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import { type Answer, type Decider, decide, matchesOf, type RateLimitRequest } from '../../engine/decide/decide.ts';
import { BLOCK_TEXT, type StandingOverride } from '../../engine/decide/overrides.ts';
import { endingAt } from '../../engine/decide/retry.ts';
import { type Limit, namedAlgorithmOf } from '../../engine/holds/limits.ts';
import type { ReservationReport } from '../../engine/holds/reports.ts';
import { type Debit, type Entries, type LedgerEntry, sourceOf } from '../../engine/ledger/debit.ts';
import { readOnly } from '../../engine/ledger/estimates.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { describeLimit, placeFields } from '../../engine/rules/match/describe.ts';
import type { Match } from '../../engine/rules/match/match.ts';
import { type MatchTrace, trace } from '../../engine/rules/match/trace.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { decodeRequest, encodeAnswer } from '../../engine/wire/codec.ts';
import { responseToJson } from '../../engine/wire/json.ts';
import { codeNumbers, type WireRequest } from '../../engine/wire/wire.ts';
import type { CounterState } from '../answers/counters.ts';
import type { ExplainedDecision, ExplainedDescriptor, ExplainedLimit, Explanation } from '../answers/explain.ts';
import { arithmeticOf, describe, siteStanding } from './arithmetic.ts';
import { copyCounters } from './copy-counters.ts';
import { drawState } from './state-drawing.ts';

export interface ExplainOptions {
  readonly decider: Decider & { readonly ledger: Pick<Ledger, 'fork' | 'health'> };
  readonly extras: Extras;
}

/** One debit of the request, as the copy of its counter answered it. */
interface Observed {
  readonly debit: Debit;
  readonly nowMs: number;
  /** Why the counter could not be read. */
  readonly failure: string | undefined;
  readonly before: State | undefined;
  readonly after: State | undefined;
  readonly decision: LedgerEntry | undefined;
}

/**
 * Answers a request as the service would now, on copies of its counters: runs the same code, and charges nothing.
 */
export async function explain(wire: WireRequest, options: ExplainOptions): Promise<Explanation> {
  const { decider, extras } = options;
  let observed: readonly Observed[] = [];
  const ledger: Decider['ledger'] = {
    async debit(request, how) {
      const fork = await copyCounters(request, decider.ledger, how.timeoutMs);
      const before = request.map((debit) => fork.stateOf(debit));
      const entries: Entries = await fork.ledger.debit(request, how);
      observed = request.map((debit, at) => {
        const entry = entries[at];
        const decision = entry && entry.code !== 'UNAVAILABLE' ? entry : undefined;
        const [nowMs, failure] = [fork.nowMs(debit), fork.failureOf(debit)];
        return { debit, nowMs, failure, before: before[at], after: fork.stateOf(debit), decision };
      });
      return entries;
    },
  };
  let request: RateLimitRequest;
  try {
    request = decodeRequest(wire);
  } catch (cause) {
    return { ...refused(toStatus(cause)), descriptors: [] };
  }
  const tree = decider.rules();
  try {
    const estimates = decider.estimates && { estimates: readOnly(decider.estimates) };
    const answer = await decide(request, { ...decider, ...estimates, ledger }, Number.POSITIVE_INFINITY);
    const response = encodeAnswer(answer, extras.headers(answer), extras.metadata(wire, answer));
    const descriptors = tree ? await explainDescriptors(tree, request, observed, decider) : [];
    return {
      status: response.overall_code === codeNumbers.OVER_LIMIT ? 429 : 200,
      answer: responseToJson(response),
      descriptors,
      decision: explainDecision(answer, tree?.domains.get(request.domain)?.spend ?? decider.spend, descriptors),
      ...warningOf(decider.ledger, observed),
    };
  } catch (cause) {
    return {
      ...refused(toStatus(cause)),
      descriptors: tree ? await explainDescriptors(tree, request, observed, decider) : [],
    };
  }
}

/** Counters may be readable while the store refuses to change them. */
function warningOf(ledger: Pick<Ledger, 'health'>, observed: readonly Observed[]): Pick<Explanation, 'warning'> {
  const health = ledger.health();
  const areRead = observed.length > 0 && observed.every(({ failure }) => failure === undefined);
  if (health.ready || !areRead) return {};
  const reason = health.reason.replace(/\.$/, '');
  return { warning: `the store does not count (${reason}): calls follow on_store_failure` };
}

const refused = ({ details }: GrpcStatus) => ({ status: 400, error: details }) as const;

/** The number of descriptors traced in one turn of the event loop: each may be compared with thousands of texts. */
const TRACED_A_TURN = 1;

async function explainDescriptors(
  tree: RuleTree,
  { domain, descriptors }: RateLimitRequest,
  observed: readonly Observed[],
  decider: Pick<Decider, 'overrides' | 'clock'>,
): Promise<readonly ExplainedDescriptor[]> {
  const applied = matchesOf({ domain, descriptors }, tree, decider);
  const traced: MatchTrace[] = [];
  for await (const slice of inTurns(descriptors, TRACED_A_TURN))
    for (const descriptor of slice) traced.push(trace(tree, domain, descriptor));
  const replacing = traced.flatMap(({ found }) =>
    'rule' in found && found.rule.replaces.length > 0 ? [found.rule] : [],
  );
  let next = 0;
  return descriptors.map(({ entries, hits, requestLimit }, at): ExplainedDescriptor => {
    const { found, path, stopped } = traced[at] ?? { found: { kind: 'no_rule' }, path: [] };
    const applies = applied[at];
    const override = decider.overrides?.of(found, domain, entries);
    const isOverridden = override !== undefined && 'rule' in found;
    const shown = isOverridden ? applies : found;
    const inForce = new Map<Limit, LimitInForce>(
      applies?.kind === 'limited'
        ? applies.limits.map((limit) => [limit.limit, { limit, observed: observed[next++] }])
        : [],
    );
    const limits =
      shown?.kind === 'limited'
        ? shown.limits.map((limit) =>
            explainLimit(shown.rule, limit, requestLimit !== undefined, inForce.get(limit.limit), replacing),
          )
        : [];
    const isBlocked = isOverridden && override.effect.kind === 'block';
    return {
      entries,
      hits,
      outcome: isOverridden ? 'overridden' : outcomeOf(found, applies),
      ...('rule' in found && { rule: found.rule.path }),
      path,
      ...(stopped && { stopped }),
      ...(isOverridden && { override: describeOverride(override) }),
      limits: isBlocked ? limits.map((limit) => blockedLimit(limit, override.untilMs, decider.clock())) : limits,
      ...('rule' in found && changeFields(found.rule, decider.clock())),
    };
  });
}

/** A limit that represents a block, described as such: it refuses until the override ends. */
const blockedLimit = ({ name: _, ...limit }: ExplainedLimit, untilMs: number, nowMs: number): ExplainedLimit => ({
  ...limit,
  limit: BLOCK_TEXT,
  ...(limit.code === 'OVER_LIMIT' && {
    arithmetic: `blocked until ${rfc3339(untilMs)}`,
    retryAfterMs: Math.max(untilMs - nowMs, 0),
  }),
});

/** A limit that applies now, and the outcome of its debit. */
interface LimitInForce {
  readonly limit: RuleLimit;
  readonly observed: Observed | undefined;
}

function changeFields({ schedule }: Rule, nowMs: number): Pick<ExplainedDescriptor, 'changesAt'> {
  const changeMs = schedule?.changesAtMs(nowMs) ?? Number.POSITIVE_INFINITY;
  return changeMs === Number.POSITIVE_INFINITY ? {} : { changesAt: rfc3339(changeMs) };
}

export const describeOverride = ({ entries, effect, untilMs, by, reason }: StandingOverride): ShownOverride => ({
  entries,
  effect: effect.kind === 'limit' ? `${effect.requestsPerUnit} per ${effect.unit.toLowerCase()}` : effect.kind,
  until: rfc3339(untilMs),
  by,
  reason,
});

function outcomeOf(found: Match, applied: Match | undefined): ExplainedDescriptor['outcome'] {
  if (found.kind === 'invalid_request_limit') return 'invalid_limit';
  if (found.kind !== 'limited' || applied?.kind === 'limited') return found.kind;
  return applied?.kind === 'unlimited' ? 'inactive' : 'replaced';
}

function explainLimit(
  rule: Rule,
  { limit, label, policy, times }: RuleLimit,
  isFromRequest: boolean,
  inForce: LimitInForce | undefined,
  replacing: readonly Rule[],
): ExplainedLimit {
  const replacedBy = replacing.filter(({ replaces }) => replaces.includes(label.name)).map(({ path }) => path);
  return {
    rule: rule.path,
    ...placeFields(rule.place),
    ...(label.name !== '' && { name: label.name }),
    limit: describeLimit({ limit, label }),
    algorithm: namedAlgorithmOf(limit),
    ...(times && { active: times.active.text }),
    ...(rule.schedule && !inForce && replacedBy.length === 0 && { inactive: true }),
    ...(policy.shadow && { shadow: true }),
    ...(policy.quota && { quota: true }),
    ...(isFromRequest && { fromRequest: true }),
    ...(replacedBy.length > 0 && { replacedBy }),
    ...(inForce?.observed && explainObserved(inForce.observed, inForce.limit.endsAtMs)),
  };
}

function explainObserved(
  { debit, nowMs, failure, before, after, decision: decided }: Observed,
  endsAtMs: number | undefined,
): Partial<ExplainedLimit> {
  const decision = decided && endingAt(decided, endsAtMs, nowMs);
  const { key, limit, kind } = debit;
  const hits = kind === 'give_back' ? -debit.hits : debit.hits;
  const counter = { counter: key, ...(failure !== undefined && { failure }) };
  if (!decision) return { ...counter, ...(failure === undefined && { before: counterState(limit, before, nowMs) }) };
  const source = sourceOf(decision);
  const isOver = decision.code === 'OVER_LIMIT';
  const { retryAfterMs, delayMs, soft, reservation } = decision;
  return {
    ...counter,
    code: decision.code,
    source,
    ...(failure === undefined && {
      before: counterState(limit, before, nowMs),
      after: counterState(limit, after, nowMs),
      drawing: drawState(limit, before, nowMs),
    }),
    arithmetic:
      source !== 'backend' || hits < 0
        ? wordsOf[source]
        : reservation && debit.commits
          ? commitText(reservation, hits)
          : arithmeticOf(limit, { state: before, nowMs, hits, holder: debit.holder }, isOver),
    ...(soft && { soft: true }),
    ...(limit.algorithm === 'site_share' && failure === undefined && { site: siteStanding(limit, before, nowMs) }),
    ...(reservation && { reservation: pick(reservation) }),
    ...(delayMs > 0 && { delayMs }),
    ...(isOver && { retryAfterMs: retryAfterMs === NEVER_MS ? null : retryAfterMs }),
  };
}

const pick = ({ event, reserved, charged, overrun }: ReservationReport) => ({ event, reserved, charged, overrun });

/** The outcome of a commit: `used 512 of 5000 reserved, charged 512`. */
function commitText({ event, reserved, charged }: ReservationReport, used: number): string {
  if (event === 'repeated') return 'committed before: nothing is charged';
  if (event === 'unknown') return `nothing was reserved under this id: charged ${charged}`;
  return `used ${used} of ${reserved} reserved${event === 'late' ? ', after the ttl' : ''}, charged ${charged}`;
}

const wordsOf = {
  backend: 'hits are refunded',
  lease: 'answered from hits that this process has leased',
  refusal: 'refused from memory: the counter refused before and cannot have room yet',
  allow: 'the counters cannot be reached, and on_store_failure is allow',
  deny: 'the counters cannot be reached, and on_store_failure is deny',
  local: "the counters cannot be reached: counted on this process's share of the limit",
} as const;

export function counterState(limit: Limit, state: State | undefined, nowMs: number): CounterState {
  const {
    hitsBefore: used,
    limitRemaining: remaining,
    durationUntilResetMs: resetsInMs,
    holds,
    reservation,
  } = describe(limit, state, nowMs);
  const oldest = holds && { oldestMs: holds.oldestMs };
  const onHold = reservation && {
    onHold: reservation.held,
    open: reservation.open,
    oldestMs: reservation.oldestMs,
  };
  return { used, remaining, resetsInMs: state ? Math.max(resetsInMs, 0) : 0, ...oldest, ...onHold };
}

function explainDecision(
  { overallCode, shadowed, delayMs, retryAfterMs }: Answer,
  spend: Decider['spend'],
  descriptors: readonly ExplainedDescriptor[],
): ExplainedDecision {
  const over = descriptors.flatMap(({ limits }, descriptor) =>
    limits.filter(({ code, shadow }) => code === 'OVER_LIMIT' && !shadow).map((limit) => ({ descriptor, limit })),
  );
  const isRefused = overallCode === 'OVER_LIMIT' || shadowed;
  const decidedBy = isRefused
    ? over.map(({ descriptor, limit: { rule, limit } }) => ({ descriptor, rule, limit }))
    : [];
  return {
    code: overallCode,
    spend,
    decidedBy,
    why: reasonOf(
      isRefused,
      shadowed,
      over.map(({ limit }) => limit),
      descriptors,
    ),
    passesInMs: passesInMs(retryAfterMs),
    delayMs,
    ...(shadowed && { shadowMode: true }),
  };
}

/** How long until a request could pass; null: never. */
export const passesInMs = (retryAfterMs: number | undefined): number | null =>
  retryAfterMs === NEVER_MS ? null : (retryAfterMs ?? 0);

const isOver = ({ code }: ExplainedLimit): boolean => code === 'OVER_LIMIT';

function reasonOf(
  isRefused: boolean,
  shadowed: boolean,
  over: readonly ExplainedLimit[],
  descriptors: readonly ExplainedDescriptor[],
): string {
  if (shadowed) return 'a limit is exceeded, and SHADOW_MODE lets the request pass';
  const isBlocked = descriptors.some(({ override, limits }) => override?.effect === 'block' && limits.some(isOver));
  if (isRefused && isBlocked) return 'an override blocks it';
  if (isRefused && over.every(({ source }) => source === 'deny')) return wordsOf.deny;
  if (isRefused) return over.length === 1 ? 'a limit is exceeded' : `${over.length} limits are exceeded`;
  if (over.length > 0) return 'quota rules refuse a request only if all of them are over their limits';
  const limits = descriptors.flatMap((descriptor) => descriptor.limits);
  if (limits.some(({ code, shadow }) => code === 'OVER_LIMIT' && shadow))
    return 'only limits in shadow mode are exceeded';
  for (const policy of ['allow', 'local'] as const)
    if (limits.some(({ source }) => source === policy)) return wordsOf[policy];
  if (limits.some(({ code }) => code !== undefined)) return 'every limit has room';
  if (descriptors.every(({ outcome }) => outcome === 'no_domain'))
    return 'no rules have the domain: nothing is limited';
  return descriptors.some(({ outcome }) => outcome === 'unlimited')
    ? 'the rule is unlimited'
    : 'no limit applies: nothing is counted';
}
