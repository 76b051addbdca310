import type { MetricRow, ReferenceName } from './metric.ts';
import { type RuleCounts, readCell } from './rule-counts.ts';
import { asStatisticName } from './statistic-name.ts';
import type { Statistics } from './stats.ts';
import {
  partFigures,
  type ReportedFigures,
  responseTime,
  ruleRows,
  sumRows,
  tallyRows,
  tallySamples,
} from './table.ts';

/** A statistic with a name of envoyproxy/ratelimit. */
interface ReferenceSample {
  readonly reference: ReferenceName;
  /** Of the rule, or with the label that has this value; undefined: it has neither. */
  readonly of: RuleCounts | string | undefined;
  readonly value: number;
}

type ReferenceRow<K> = readonly [key: K, reference: ReferenceName];

const referenceRows = <R extends object>(rows: R): readonly ReferenceRow<keyof R>[] =>
  // the keys are those of the rows
  Object.entries<MetricRow>(rows as Record<string, MetricRow>).flatMap(([key, { reference }]) =>
    reference ? [[key as keyof R, reference]] : [],
  );

const [ofRules, ofTallies, ofSums] = [referenceRows(ruleRows), referenceRows(tallyRows), referenceRows(sumRows)];
const ofFigures = referenceRows(partFigures);

/** Includes counters that are 0, of rules that were hit and of the service. */
export function* referenceSamples(statistics: Statistics): Iterable<ReferenceSample> {
  for (const rule of statistics.rules())
    for (const [key, reference] of ofRules) yield { reference, of: rule, value: readCell(rule[key]) };
  for (const [key, reference] of ofTallies)
    for (const [of, value] of tallySamples(statistics[key])) yield { reference, of, value };
  for (const [key, reference] of ofSums) yield { reference, of: undefined, value: statistics.sums[key] };
}

/**
 * Every counter by its full name in envoyproxy/ratelimit, such as
 * `ratelimit.service.rate_limit.shop.user_alice.total_hits`. Rules with the same name are counted together.
 */
export function referenceCounters(statistics: Statistics): ReadonlyMap<string, number> {
  const counters = new Map<string, number>();
  for (const sample of referenceSamples(statistics)) {
    const name = statsdName(sample);
    counters.set(name, (counters.get(name) ?? 0) + sample.value);
  }
  return counters;
}

/** The gauges by their full names, those of the local cache of refusals; there are none without it. */
export const referenceGauges = (figures: ReportedFigures): ReadonlyMap<string, number> =>
  new Map(
    ofFigures.flatMap(([key, { statsd }]) => {
      const value = figures[key];
      return value === undefined ? [] : [[statsd, value]];
    }),
  );

/** The name of a gRPC method's timer, which is in whole milliseconds. */
export const responseTimeName = (method: string): string =>
  statsdName({ reference: responseTime.reference, of: method });

export function statsdName({ reference: { statsd, values }, of }: Omit<ReferenceSample, 'value'>): string {
  const at = statsd.indexOf('<');
  if (at < 0 || of === undefined) return statsd;
  const name = typeof of === 'string' ? asStatisticName(values?.[of] ?? of) : of.key;
  return `${statsd.slice(0, at)}${name}${statsd.slice(statsd.indexOf('>') + 1)}`;
}
