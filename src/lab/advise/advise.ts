import type { AdviceOptions, AdvisedLimit, Proposal, Quantiles, RuleAdvice, TableRow } from './advised-rule.ts';
import { confidenceOf, refusalOf } from './enough.ts';
import { groupKeys, weightAbove } from './groups.ts';
import { propose, rounded, shareOf } from './propose.ts';
import type { FollowedKey, ObservedRule } from './rule-sketch.ts';
import { warningsOf } from './warnings.ts';
import { WeightedValues } from './weighted-values.ts';

/** The intervals, in windows, for which the most hits of a key are reported. */
const INTERVALS = [1 / 60, 1 / 10, 1 / 2, 1, 10] as const;

/** Advises on one limit, from its observed traffic. */
export function adviseOn(limit: AdvisedLimit, observed: ObservedRule, options: AdviceOptions): RuleAdvice {
  const { followed, windows, windowMs, refusedHits } = observed;
  const refusal = refusalOf(observed);
  const proposed = refusal === undefined ? propose(limit, followed, options) : undefined;
  const groups = proposed?.groups ?? groupKeys(followed, ({ arrivals }) => arrivals.busiest, options.maxKeysHit);
  const busiest = valuesOf(followed, ({ arrivals }) => arrivals.busiest);
  const refused = followed.filter(({ arrivals }) => arrivals.refusedHits > 0);
  return {
    limit,
    confidence: confidenceOf(observed, options.maxKeysHit),
    windows: quantilesOf(windows),
    busiest: quantilesOf(busiest),
    envelope: INTERVALS.map((interval) => ({
      intervalMs: Math.max(Math.round(interval * windowMs), 1),
      ...quantilesOf(valuesOf(followed, ({ arrivals }) => arrivals.mostWithin(interval))),
    })),
    bursts: ratesOf(limit, proposed?.proposal).map((rate) => ({
      rate,
      ...quantilesOf(valuesOf(followed, ({ arrivals }) => arrivals.burstAt(rate))),
    })),
    table: tableOf(limit, observed, busiest, proposed?.proposal),
    refusedNow: { hits: refusedHits, keys: shareOf(refused, followed) },
    warnings: warningsOf(limit, observed, groups, options.shownKey),
    ...(proposed && { proposal: proposed.proposal }),
    ...(refusal !== undefined && { refusal }),
  };
}

const valuesOf = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number): WeightedValues =>
  new WeightedValues(keys.map((one) => ({ value: value(one), weight: one.weight })));

const quantilesOf = (values: { readonly max: number; quantile(part: number): number }): Quantiles => ({
  p50: values.quantile(0.5),
  p90: values.quantile(0.9),
  p99: values.quantile(0.99),
  p999: values.quantile(0.999),
  max: values.max,
});

/** The current and the proposed limit, as rates in hits a window. */
const ratesOf = ({ requestsPerUnit }: AdvisedLimit, proposal: Proposal | undefined): readonly number[] =>
  [...new Set([requestsPerUnit, ...(proposal ? [proposal.requestsPerUnit] : [])])]
    .filter((rate) => rate > 0)
    .sort((one, other) => one - other);

/** The effects of limits: some that keys exceed, the current one and the proposed one. */
function tableOf(
  { requestsPerUnit }: AdvisedLimit,
  { followed, windows }: ObservedRule,
  busiest: WeightedValues,
  proposal: Proposal | undefined,
): readonly TableRow[] {
  const { p50, p90, p99, p999, max } = quantilesOf(busiest);
  const isWindow = proposal !== undefined && proposal.burst === undefined;
  const limits = new Set([
    ...[p50, p90, p99, p999, max].map(rounded),
    requestsPerUnit,
    ...(isWindow ? [proposal.requestsPerUnit] : []),
  ]);
  return [...limits]
    .sort((one, other) => one - other)
    .map((limit) => ({
      limit,
      keysHit: Math.round(weightAbove(followed, ({ arrivals }) => arrivals.busiest, limit)),
      requestsRefused: windows.above(limit),
      ...(isWindow && limit === proposal.requestsPerUnit && { is: 'proposed' as const }),
      ...(limit === requestsPerUnit && { is: 'now' as const }),
    }));
}
