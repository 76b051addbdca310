import { inTurns } from '../../base/slices.ts';
import { rfc3339 } from '../../base/times.ts';
import { placeFields } from '../../edge/listing/describe.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import type { Decider, RateLimitRequest } from '../../engine/decide/decide.ts';
import { asPassed } from '../../engine/decide/outcomes.ts';
import { BLOCK_TEXT } from '../../engine/decide/overrides.ts';
import { endingAt } from '../../engine/decide/retry.ts';
import { ANONYMOUS } from '../../engine/holds/claim.ts';
import { algorithmFor, isShared, type Limit, namedAlgorithm } from '../../engine/holds/limits.ts';
import type { ReservationReport } from '../../engine/holds/reports.ts';
import { answerSource, type Debit, type LedgerEntry } from '../../engine/ledger/debit.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import type { Match } from '../../engine/rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { describeOverride, passesInMs } from '../../operate/admin/shown.ts';
import type { SharedChild } from '../lab/answers/counters.ts';
import type { ExplainedDescriptor, ExplainedLimit } from '../lab/answers/explain.ts';
import {
  counterState,
  describeShare,
  drawState,
  sourceTexts,
  withBlock,
  writeArithmetic,
  writeSum,
} from '../lab/counters/counter-state.ts';
import { type MatchTrace, trace } from './trace.ts';

/** One debit of the request, as the copy of its counter answered it. */
export interface ObservedDebit {
  readonly debit: Debit;
  /** An earlier debit of the request changes the same counter. */
  readonly isRepeated: boolean;
  readonly nowMs: number;
  /** Why the counter could not be read. */
  readonly failure: string | undefined;
  readonly before: State | undefined;
  readonly after: State | undefined;
  readonly decision: LedgerEntry | undefined;
}

/** How a request was decided. */
interface Decided {
  /** The override that applies to each descriptor, or the match of its rule. */
  readonly applied: readonly Match[];
  /** The debits of the limits that apply, in their order. */
  readonly observed: readonly ObservedDebit[];
  /** The children of shared limits, by descriptor. */
  readonly children: readonly (readonly SharedChild[])[];
}

/** Descriptors traced in one turn of the event loop; each may be compared with thousands of texts. */
const TRACED_A_TURN = 1;

/** Explains the path of each descriptor through the rules, and its limits. */
export async function explainDescriptors(
  tree: RuleTree,
  { domain, descriptors }: RateLimitRequest,
  { applied, observed, children }: Decided,
  decider: Pick<Decider, 'overrides' | 'clock'>,
): Promise<readonly ExplainedDescriptor[]> {
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
    const override = isInPlace(applies) ? decider.overrides?.of(found, domain, entries)?.override : undefined;
    const isOverridden = override !== undefined;
    const shown = isOverridden ? applies : found;
    const inForce = new Map<Limit, LimitInForce>(
      applies?.kind === 'limited'
        ? applies.limits.map((limit) => [
            limit.limit,
            { limit, observed: observed[next++], children: children[at] ?? [] },
          ])
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
      outcome: isOverridden ? 'overridden' : describeOutcome(found, applies),
      ...('rule' in found && { rule: found.rule.path }),
      path,
      ...(stopped && { stopped }),
      ...(isOverridden && { override: describeOverride(override) }),
      limits: isBlocked ? limits.map((limit) => blockedLimit(limit, override.untilMs, decider.clock())) : limits,
      ...('rule' in found && !isOverridden && changeFields(found.rule, decider.clock())),
    };
  });
}

/** Whether an override replaces the rule. It has no effect on releases and commits. */
const isInPlace = (applied: Match | undefined): boolean =>
  applied?.kind === 'limited' ? applied.overridden === true : applied?.kind === 'unlimited' && applied.exempt === true;

/** Describes a limit that represents a block, which refuses until the override ends. */
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
  readonly observed: ObservedDebit | undefined;
  readonly children: readonly SharedChild[];
}

function changeFields({ schedule }: Rule, nowMs: number): Pick<ExplainedDescriptor, 'changesAt'> {
  const changeMs = schedule?.changesAtMs(nowMs) ?? Number.POSITIVE_INFINITY;
  return changeMs === Number.POSITIVE_INFINITY ? {} : { changesAt: rfc3339(changeMs) };
}

function describeOutcome(found: Match, applied: Match | undefined): ExplainedDescriptor['outcome'] {
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
    algorithm: namedAlgorithm(limit),
    ...(times && { active: times.active.text }),
    ...(rule.schedule && !inForce && replacedBy.length === 0 && { inactive: true }),
    ...(policy.shadow && { shadow: true }),
    ...(policy.quota && { quota: true }),
    ...(isFromRequest && { fromRequest: true }),
    ...(replacedBy.length > 0 && { replacedBy }),
    ...(inForce?.observed && explainObserved(inForce.observed, inForce)),
  };
}

function explainObserved(
  { debit, isRepeated, nowMs, failure, before, after, decision: decided }: ObservedDebit,
  { limit: { endsAtMs }, children }: LimitInForce,
): Partial<ExplainedLimit> {
  const decision = decided && endingAt(debit.isPassed ? asPassed(decided) : decided, endsAtMs, nowMs);
  const { key, limit, kind } = debit;
  const hits = kind === 'give_back' ? -debit.hits : debit.hits;
  const counter = { counter: key, ...(failure !== undefined && { failure }) };
  const isShown = failure === undefined && !isRepeated; // the states are those of the whole request
  if (!decision) return { ...counter, ...(isShown && { before: counterState(limit, before, nowMs, debit) }) };
  const source = answerSource(decision);
  const isOver = decision.code === 'OVER_LIMIT';
  const { retryAfterMs, delayMs, soft, reservation, share } = decision;
  return {
    ...counter,
    code: decision.code,
    source,
    ...(isShown && {
      before: counterState(limit, before, nowMs, debit),
      after: counterState(limit, after, nowMs, debit),
      drawing: drawState(limit, before, nowMs),
    }),
    arithmetic:
      source !== 'backend' || hits < 0
        ? sourceTexts[source]
        : reservation && debit.commits
          ? commitText(reservation, debit)
          : share && isShared(limit)
            ? describeShare(limit, share, children)
            : withBlock(
                isRepeated
                  ? `${writeSum(limit, hits, decision)}, after the descriptors above`
                  : writeArithmetic(limit, { state: before, nowMs, hits, claim: debit }, isOver),
                decision,
              ),
    ...(limit.currency !== undefined && { cost: hits }),
    ...(soft && { soft: true }),
    ...(failure === undefined && algorithmFor(limit).standing?.(limit, before, nowMs)),
    ...(reservation && { reservation: pick(reservation) }),
    ...(share && { share }),
    ...(children.length > 0 && { children }),
    ...(delayMs > 0 && { delayMs }),
    ...(isOver && { retryAfterMs: passesInMs(retryAfterMs) }),
  };
}

const pick = ({ event, reserved, charged, overrun }: ReservationReport) => ({ event, reserved, charged, overrun });

/** The outcome of a commit: `used 512 of 5000 reserved, charged 512`. */
function commitText({ event, reserved, charged }: ReservationReport, { limit, hits, holder }: Debit): string {
  const count = (hits: number): string => showCount(limit, hits);
  if (holder === ANONYMOUS && hits === 0) return 'charged with another part of the same commit';
  if (event === 'repeated') return 'committed before: nothing is charged';
  if (event === 'unknown') return `nothing was reserved under this id: charged ${count(charged)}`;
  return `used ${count(hits)} of ${count(reserved)} reserved${event === 'late' ? ', after the ttl' : ''}, charged ${count(charged)}`;
}
