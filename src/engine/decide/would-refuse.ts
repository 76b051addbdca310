import type { JsonObject } from '../../base/json.ts';
import type { LimitLabel } from '../algorithms/limit.ts';
import type { Limit } from '../holds/limits.ts';
import type { LedgerEntry } from '../ledger/debit.ts';
import type { Rule } from '../rules/match/tree.ts';
import { missingName } from '../rules/read/requirement.ts';
import type { Answer, Limited, Verdict } from './decide.ts';
import { describeApplied } from './overrides.ts';

/** What spares a request that exceeds a limit: its shadow mode, another quota with room, or the service's shadow mode. */
export const spareReasons = ['shadow', 'quota', 'service_shadow'] as const;
type SpareReason = (typeof spareReasons)[number];

/** The setting of each reason. */
export const spareTexts: Readonly<Record<SpareReason, string>> = {
  shadow: 'shadow_mode',
  quota: 'quota_mode',
  service_shadow: 'SHADOW_MODE',
};

/** A limit that is exceeded and does not refuse. */
interface Spared {
  /** The index of its descriptor. */
  readonly descriptor: number;
  readonly rule: Rule;
  readonly limit: Limit;
  readonly label: LimitLabel;
  readonly decision: LedgerEntry;
  readonly reason: SpareReason;
}

const NONE: readonly Spared[] = [];

/**
 * The limits that would have refused a request, and why they did not. Of the limits of a rule, these are the one that
 * its verdict shows, and all in shadow mode.
 */
export function wouldRefuse(answer: Answer): readonly Spared[] {
  const { verdicts } = answer;
  if (!verdicts.some(isExceeded)) return NONE; // the common case
  const hasQuotaLeft = verdicts.some((one) => one.kind === 'limited' && one.policy.quota && one.code === 'OK');
  return verdicts.flatMap((verdict, at) =>
    verdict.kind === 'limited' ? spared(verdict, at, answer, hasQuotaLeft) : [],
  );
}

const isExceeded = (verdict: Verdict): boolean =>
  verdict.kind === 'limited' &&
  (verdict.decision.code === 'OVER_LIMIT' || verdict.shadowRefusals !== undefined || verdict.beside !== undefined);

function spared(verdict: Limited, descriptor: number, answer: Answer, hasQuotaLeft: boolean): readonly Spared[] {
  const { rule, limit, label, decision, shadowRefusals = [], beside } = verdict;
  const reason = spareReason(verdict, answer, hasQuotaLeft);
  return [
    ...(reason ? [{ descriptor, rule, limit, label, decision, reason }] : []),
    ...shadowRefusals.map((one) => ({ descriptor, rule, ...one, reason: 'shadow' as const })),
    ...(beside ? spared(beside, descriptor, answer, hasQuotaLeft) : []),
  ];
}

/** Undefined: the limit has room, or it refuses. */
function spareReason(
  { policy, decision }: Limited,
  { overallCode, shadowed }: Answer,
  hasQuotaLeft: boolean,
): SpareReason | undefined {
  if (decision.code === 'OK') return undefined;
  if (policy.shadow) return 'shadow';
  if (policy.quota && hasQuotaLeft) return 'quota';
  if (shadowed) return 'service_shadow';
  return overallCode === 'OK' ? 'quota' : undefined;
}

/** The most limits that are described of one request, and characters of a path, which a caller's limit determines. */
const MAX_DESCRIBED = 32;
const MAX_PATH_LENGTH = 512;

/**
 * The limits that would have refused a request, for callers and operators; undefined if there are none.
 *
 * @example `[{ "descriptor": 0, "rule": "demo.user", "limit": "5 per minute", "reason": "shadow" }]`
 */
export function describeWouldRefuse(answer: Answer): readonly DescribedSpared[] | undefined {
  const all = wouldRefuse(answer);
  if (all.length === 0) return undefined;
  return all.slice(0, MAX_DESCRIBED).map(({ descriptor, rule, limit, label, reason }) => ({
    descriptor,
    rule: rule.path.slice(0, MAX_PATH_LENGTH),
    ...(label.name !== '' && { name: label.name }),
    limit: describeApplied({ limit, label }),
    reason,
  }));
}

/**
 * What neither the statuses of an answer nor its code tell: the limits that would have refused, the required keys that
 * the request lacks, and the indices of descriptors that an override exempts. Undefined if there are none.
 */
export function untoldFacts(answer: Answer): JsonObject | undefined {
  const { verdicts, unmet } = answer;
  const would_refuse = describeWouldRefuse(answer);
  const hasExempt = verdicts.some(isExempt);
  if (!would_refuse && !unmet && !hasExempt) return undefined; // the common case
  return {
    ...(unmet && { missing: unmet.missing.map(({ requirement }) => missingName(requirement)) }),
    ...(hasExempt && { exempt: verdicts.flatMap((one, at) => (isExempt(one) ? [at] : [])).slice(0, MAX_DESCRIBED) }),
    ...(would_refuse && { would_refuse }),
  };
}

const isExempt = (verdict: Verdict): boolean => verdict.kind === 'unlimited' && verdict.exempt === true;

/** A limit that would have refused, described. */
export interface DescribedSpared extends JsonObject {
  readonly descriptor: number;
  readonly rule: string;
  /** `5 per minute`. */
  readonly limit: string;
  readonly reason: SpareReason;
}
