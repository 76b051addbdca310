import type { StoreFailurePolicy } from '../../src/engine/algorithms/limit.ts';
import type { Answer, Verdict } from '../../src/engine/decide/decide.ts';
import type { Reports, ReservationReport } from '../../src/engine/holds/reports.ts';
import { fixedWindowOf, labelOf, ruleLimitOf } from './limits.ts';
import { ruleOf } from './rules.ts';

/** An answer with these verdicts; `changes` override its other properties. */
export const answerOf = (verdicts: readonly Verdict[], changes: Partial<Answer> = {}): Answer => ({
  overallCode: 'OK',
  verdicts,
  shadowed: false,
  delayMs: 0,
  ...changes,
});

interface VerdictFacts {
  readonly limit?: number;
  readonly hits?: number;
  readonly before?: number;
  readonly fromCache?: boolean;
  readonly shadow?: boolean;
  readonly soft?: boolean;
  readonly degraded?: StoreFailurePolicy;
  readonly holds?: NonNullable<Reports['holds']>;
  readonly reservation?: ReservationReport;
}

/** The verdict of a fixed window, by default with a limit of ten, whose rule has these levels. */
export function verdictOf(
  levels: readonly string[],
  {
    limit: requestsPerUnit = 10,
    hits = 1,
    before = 0,
    fromCache = false,
    shadow = false,
    soft = false,
    degraded,
    holds,
    reservation,
  }: VerdictFacts = {},
): Verdict {
  const limit = fixedWindowOf(requestsPerUnit);
  const code = before + hits > limit.requestsPerUnit ? 'OVER_LIMIT' : 'OK';
  const times = { durationUntilResetMs: 1_000, retryAfterMs: 0, delayMs: 0 };
  const decision = { code, hitsBefore: before, limitRemaining: 0, ...times, soft } as const;
  const reports = { ...(holds && { holds }), ...(reservation && { reservation }) };
  return {
    kind: 'limited',
    rule: ruleOf({ levels, limits: [ruleLimitOf(limit)] }),
    levels,
    found: { entries: [] },
    limit,
    label: labelOf(limit),
    policy: shadow ? { shadow } : {},
    decision: {
      ...decision,
      ...(fromCache && { fromCache, fromLocalCache: true }),
      ...(degraded && { degraded }),
      ...reports,
    },
    hits,
    code: shadow ? 'OK' : code,
  };
}
