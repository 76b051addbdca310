import {
  bareDecision,
  type Decision,
  type DescriptorDecision,
  type NotLimited,
  noLimit,
  toSpared,
} from '../decision.ts';
import { type FailureKind, WeirUnavailable } from '../errors.ts';
import { type LimitRequest, units, windowLengthMs } from '../wire/messages.ts';
import type { Cancel, Outcome } from './transport.ts';

/** An engine that decides in this process, such as one from `createEngine` of `weir-rls/engine`. */
export interface DecisionEngine {
  decide(request: EngineRequest, options: { readonly timeoutMs: number }): Promise<EngineAnswer>;
  /** The limits that would have refused; absent: unknown. */
  wouldRefuse?(answer: EngineAnswer): readonly object[];
  /** The response that a rule has for requests that it refuses; absent: none. */
  refusal?(answer: EngineAnswer): EngineRefusal | undefined;
  /** Whether the store can be reached. */
  health(): { readonly ready: boolean };
  close(): Promise<void>;
}

/** The response to a refused request. */
export interface EngineRefusal {
  readonly contentType: string;
  readonly body: string;
  readonly headers: readonly { readonly key: string; readonly value: string }[];
}

/** A request to an engine. */
export interface EngineRequest {
  readonly domain: string;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly hits: number;
  }[];
}

/** The used part of an engine's answer. */
export interface EngineAnswer {
  readonly overallCode: 'OK' | 'OVER_LIMIT';
  /** One for each descriptor. */
  readonly verdicts: readonly EngineVerdict[];
  /** How long to hold the request. */
  readonly delayMs: number;
  /** Infinity if the request could never pass, absent if it passed. */
  readonly retryAfterMs?: number | undefined;
}

/** The used part of an engine's verdict. */
export type EngineVerdict =
  | LimitedVerdict
  | { readonly kind: 'unlimited'; readonly rule: { readonly path: string } }
  | { readonly kind: 'no_rule' | 'no_domain' };

/** The used part of the verdict of a rule with a limit. */
export interface LimitedVerdict {
  readonly kind: 'limited';
  readonly code: 'OK' | 'OVER_LIMIT';
  readonly rule: { readonly path: string };
  readonly limit: { readonly requestsPerUnit: number };
  readonly label: { readonly name: string; readonly unit: string; readonly unitMultiplier: number };
  readonly policy: { readonly shadow?: boolean; readonly quota?: boolean };
  readonly decision: {
    readonly limitRemaining: number;
    readonly durationUntilResetMs: number;
    readonly untilUnspentMs?: number | undefined;
    readonly retryAfterMs: number;
    readonly fromCache?: true;
    readonly fromLease?: true;
    readonly degraded?: string;
  };
}

/** Asks the engine, and holds requests that pass later. Calls back once, asynchronously; never throws. @internal */
export function sendToEngine(
  engine: DecisionEngine,
  { domain, descriptors, hits }: LimitRequest,
  timeoutMs: number,
  done: (outcome: Outcome) => void,
): Cancel {
  let timer: NodeJS.Timeout | undefined;
  const request = {
    domain,
    descriptors: descriptors.map((entries) => ({ entries: entries.map(([key, value]) => ({ key, value })), hits })),
  };
  engine.decide(request, { timeoutMs }).then(
    (answer) => {
      const wouldRefuse = toSpared(engine.wouldRefuse?.(answer));
      const decision = { ...toDecision(answer), wouldRefuse, ...toResponse(engine.refusal?.(answer)) };
      if (answer.delayMs > 0) timer = setTimeout(() => done(decision), answer.delayMs);
      else done(decision);
    },
    (cause: unknown) => done(toEngineFailure(cause)),
  );
  return () => clearTimeout(timer);
}

const toResponse = (refusal: EngineRefusal | undefined): Partial<Pick<Decision, 'headers' | 'body'>> =>
  refusal
    ? { headers: [{ key: 'content-type', value: refusal.contentType }, ...refusal.headers], body: refusal.body }
    : {};

/** The kind of failure by the name of the engine's error; others are `unavailable`. */
const kinds: Readonly<Record<string, FailureKind>> = { InvalidRequest: 'invalid', TooCostly: 'rejected' };

function toEngineFailure(cause: unknown): WeirUnavailable {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return new WeirUnavailable(kinds[name] ?? 'unavailable', message, { cause });
}

/** The decision of a service that gives this answer. */
function toDecision({ overallCode, verdicts, delayMs, retryAfterMs }: EngineAnswer): Decision {
  const ok = overallCode === 'OK';
  const descriptors = verdicts.map((verdict) => toState(verdict, ok));
  const at = findDeciding(verdicts);
  const deciding = verdicts[at];
  const source = deciding?.kind === 'limited' ? nameSource(deciding) : undefined;
  return {
    ...bareDecision(ok, source),
    limited: at >= 0,
    because: at >= 0 ? undefined : whyNotLimited(verdicts),
    ...(descriptors[at] ?? noLimit),
    ok,
    retryAfterMs: ok ? undefined : finite(retryAfterMs),
    delayMs,
    descriptors,
  };
}

function whyNotLimited(verdicts: readonly EngineVerdict[]): NotLimited {
  if (verdicts.some(({ kind }) => kind === 'unlimited')) return 'the rule is unlimited';
  return verdicts.some(({ kind }) => kind === 'no_domain') ? 'no rules for the domain' : 'no rule matches';
}

function toState(verdict: EngineVerdict, passes: boolean): DescriptorDecision {
  if (verdict.kind === 'unlimited') return { ok: true, ...noLimit, rule: verdict.rule.path };
  if (verdict.kind !== 'limited') return { ok: true, ...noLimit };
  const { code, rule, limit, label, decision } = verdict;
  const ok = code !== 'OVER_LIMIT';
  return {
    ok,
    rule: rule.path,
    name: label.name === '' ? undefined : label.name,
    limit: limit.requestsPerUnit,
    windowMs: windowLengthMs(unitMs.get(label.unit), label.unitMultiplier),
    remaining: decision.limitRemaining,
    resetMs: decision.durationUntilResetMs,
    unspentMs: decision.untilUnspentMs ?? decision.durationUntilResetMs,
    retryAfterMs: ok || passes ? undefined : finite(decision.retryAfterMs),
  };
}

const unitMs = new Map(units);

const finite = (ms: number | undefined): number | undefined => (ms === Number.POSITIVE_INFINITY ? undefined : ms);

const nameSource = ({ decision: { degraded, fromLease, fromCache } }: LimitedVerdict): string =>
  degraded ?? (fromLease ? 'lease' : fromCache ? 'refusal' : 'backend');

/** @returns  the place of the verdict that a service reports as the one that decided; -1 without limits */
function findDeciding(verdicts: readonly EngineVerdict[]): number {
  let found = -1;
  let deciding: LimitedVerdict | undefined;
  for (const [at, verdict] of verdicts.entries()) {
    if (verdict.kind !== 'limited' || (deciding && !decidesBefore(verdict, deciding))) continue;
    found = at;
    deciding = verdict;
  }
  return found;
}

function decidesBefore(one: LimitedVerdict, other: LimitedVerdict): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.policy.shadow !== other.policy.shadow) return !one.policy.shadow;
  if (one.code === 'OK') return one.decision.limitRemaining < other.decision.limitRemaining;
  if (one.policy.quota !== other.policy.quota) return !one.policy.quota;
  return one.decision.retryAfterMs > other.decision.retryAfterMs;
}
