import type { Decision, DescriptorDecision } from '../decision.ts';
import { type FailureKind, WeirUnavailable } from '../errors.ts';
import { type LimitRequest, units, windowMsOf } from '../wire/messages.ts';
import type { Cancel, Outcome } from './transport.ts';

/** An engine that decides in this process, such as one from `createEngine` of `weir-rls/engine`. */
export interface DecisionEngine {
  decide(request: EngineRequest, options: { readonly timeoutMs: number }): Promise<EngineAnswer>;
  /** Whether the store can be reached. */
  health(): { readonly ready: boolean };
  close(): Promise<void>;
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
    readonly retryAfterMs: number;
    readonly fromCache?: true;
    readonly fromLease?: true;
    readonly degraded?: string;
  };
}

/** Asks the engine, and holds requests that pass later. Calls back once, asynchronously; never throws. */
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
      const decision = decisionOfAnswer(answer);
      if (answer.delayMs > 0) timer = setTimeout(() => done(decision), answer.delayMs);
      else done(decision);
    },
    (cause: unknown) => done(failureOf(cause)),
  );
  return () => clearTimeout(timer);
}

/** The kind of failure by the name of the engine's error; others are `unavailable`. */
const kinds: Readonly<Record<string, FailureKind>> = { InvalidRequest: 'invalid', TooCostly: 'rejected' };

function failureOf(cause: unknown): WeirUnavailable {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return new WeirUnavailable(kinds[name] ?? 'unavailable', message, { cause });
}

/** The decision of a service that gives this answer. */
function decisionOfAnswer({ overallCode, verdicts, delayMs, retryAfterMs }: EngineAnswer): Decision {
  const ok = overallCode === 'OK';
  const deciding = decidingVerdict(verdicts);
  return {
    ...stateOf(deciding, ok),
    ok,
    retryAfterMs: ok ? undefined : finite(retryAfterMs),
    delayMs,
    source: deciding && sourceOf(deciding),
    descriptors: verdicts.map((verdict) => stateOf(verdict, ok)),
    headers: [],
    error: undefined,
  };
}

function stateOf(verdict: EngineVerdict | undefined, passes: boolean): DescriptorDecision {
  if (verdict?.kind !== 'limited')
    return { ...unlimited, rule: verdict?.kind === 'unlimited' ? verdict.rule.path : undefined };
  const { code, rule, limit, label, decision } = verdict;
  const ok = code !== 'OVER_LIMIT';
  return {
    ok,
    rule: rule.path,
    name: label.name === '' ? undefined : label.name,
    limit: limit.requestsPerUnit,
    windowMs: windowMsOf(unitMs.get(label.unit), label.unitMultiplier),
    remaining: Math.min(decision.limitRemaining, limit.requestsPerUnit),
    resetMs: decision.durationUntilResetMs,
    retryAfterMs: ok || passes ? undefined : finite(decision.retryAfterMs),
  };
}

const unlimited: DescriptorDecision = {
  ok: true,
  rule: undefined,
  name: undefined,
  limit: undefined,
  windowMs: undefined,
  remaining: undefined,
  resetMs: undefined,
  retryAfterMs: undefined,
};

const unitMs = new Map(units);

const finite = (ms: number | undefined): number | undefined => (ms === Number.POSITIVE_INFINITY ? undefined : ms);

const sourceOf = ({ decision: { degraded, fromLease, fromCache } }: LimitedVerdict): string =>
  degraded ?? (fromLease ? 'lease' : fromCache ? 'refusal' : 'backend');

/** The verdict that a service reports as the one that decided. */
function decidingVerdict(verdicts: readonly EngineVerdict[]): LimitedVerdict | undefined {
  let found: LimitedVerdict | undefined;
  for (const verdict of verdicts)
    if (verdict.kind === 'limited' && (!found || decidesBefore(verdict, found))) found = verdict;
  return found;
}

function decidesBefore(one: LimitedVerdict, other: LimitedVerdict): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.policy.shadow !== other.policy.shadow) return !one.policy.shadow;
  if (one.code === 'OK') return one.decision.limitRemaining < other.decision.limitRemaining;
  if (one.policy.quota !== other.policy.quota) return !one.policy.quota;
  return one.decision.retryAfterMs > other.decision.retryAfterMs;
}
