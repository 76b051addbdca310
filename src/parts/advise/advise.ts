import { present } from '../../base/group.ts';
import { count, counted, percent, share } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import { findNamedRow } from '../../engine/holds/limits.ts';
import { spanText } from '../replay/report.ts';
import type { AdvisedLimit, Proposal, RuleAdvice } from './answers.ts';
import { clientsBehind, collectValues, groupKeys, type KeyGroups, totalWeight, weightAbove } from './groups.ts';
import { type AdviceOptions, keyShare, propose, rounded } from './propose.ts';
import type { FollowedKey, ObservedRule } from './rule-sketch.ts';
import { CONFIDENCE, unseenPart, type WeightedValues } from './weighted-values.ts';

/** Intervals, in windows, for which the peak hits of a key are reported. */
const INTERVALS = [1 / 60, 1 / 10, 1 / 2, 1, 10] as const;

/** Advises on one limit, from its observed traffic. */
export function adviseOn(limit: AdvisedLimit, observed: ObservedRule, options: AdviceOptions): RuleAdvice {
  const { followed, windows, windowMs, refusedHits } = observed;
  const refusal = explainRefusal(observed);
  const proposed = refusal === undefined ? propose(limit, followed, options) : undefined;
  const groups = proposed?.groups ?? groupKeys(followed, ({ arrivals }) => arrivals.busiest, options.maxKeysHit);
  const busiest = collectValues(followed, ({ arrivals }) => arrivals.busiest);
  const refused = followed.filter(({ arrivals }) => arrivals.refusedHits > 0);
  return {
    limit,
    confidence: assessConfidence(observed, options.maxKeysHit),
    windows: readQuantiles(windows),
    busiest: readQuantiles(busiest),
    envelope: INTERVALS.map((interval) => ({
      intervalMs: Math.max(Math.round(interval * windowMs), 1),
      ...readQuantiles(collectValues(followed, ({ arrivals }) => arrivals.mostWithin(interval))),
    })),
    bursts: shownRates(limit, proposed?.proposal).map((rate) => ({
      rate,
      ...readQuantiles(collectValues(followed, ({ arrivals }) => arrivals.burstAt(rate))),
    })),
    table: buildTable(limit, observed, { busiest, proposal: proposed?.proposal }),
    refusedNow: { hits: refusedHits, keys: keyShare(refused, followed) },
    warnings: findWarnings(limit, observed, { groups, shownKey: options.shownKey }),
    ...(proposed && { proposal: proposed.proposal }),
    ...(refusal !== undefined && { refusal }),
  };
}

const readQuantiles = (values: { readonly max: number; quantile(part: number): number }): RuleAdvice['windows'] => ({
  p50: values.quantile(0.5),
  p90: values.quantile(0.9),
  p99: values.quantile(0.99),
  p999: values.quantile(0.999),
  max: values.max,
});

/** The current and the proposed limit, as rates in hits a window. */
const shownRates = ({ requestsPerUnit }: AdvisedLimit, proposal: Proposal | undefined): readonly number[] =>
  [...new Set(present([requestsPerUnit, proposal?.requestsPerUnit]))]
    .filter((rate) => rate > 0)
    .sort((one, other) => one - other);

/** Effects of the current limit, the proposed one, and some that keys exceed. */
function buildTable(
  { requestsPerUnit }: AdvisedLimit,
  { followed, windows }: ObservedRule,
  { busiest, proposal }: { readonly busiest: WeightedValues; readonly proposal: Proposal | undefined },
): RuleAdvice['table'] {
  const { p50, p90, p99, p999, max } = readQuantiles(busiest);
  const isWindow = proposal !== undefined && proposal.burst === undefined;
  const limits = [...[p50, p90, p99, p999, max].map(rounded), requestsPerUnit, isWindow && proposal.requestsPerUnit];
  return [...new Set(present(limits))]
    .sort((one, other) => one - other)
    .map((limit) => ({
      limit,
      keysHit: Math.round(weightAbove(followed, ({ arrivals }) => arrivals.busiest, limit)),
      requestsRefused: windows.above(limit),
      ...(isWindow && limit === proposal.requestsPerUnit && { is: 'proposed' as const }),
      ...(limit === requestsPerUnit && { is: 'now' as const }),
    }));
}

/** Minimum data for a proposal. */
const MIN_KEYS = 30;
const MIN_REQUESTS = 1_000;
const MIN_WINDOWS = 10;
/** Minimum number of windows of a day or longer. */
const MIN_LONG_WINDOWS = 3;

const DAY_MS = 86_400_000;
/** Days that cover a whole week; a shorter observation lowers the confidence. */
const WEEK_DAYS = 7;

/** The reason why there is too little traffic for a proposal, or undefined if there is enough. */
function explainRefusal({ keys, requests, firstMs, lastMs, windowMs, followed }: ObservedRule): string | undefined {
  const minWindows = windowMs >= DAY_MS ? MIN_LONG_WINDOWS : MIN_WINDOWS;
  const windows = Math.floor((lastMs - firstMs) / windowMs);
  const known = Math.min(keys, followed.length);
  const missing = present([
    known < MIN_KEYS && `${counted(known, 'key')} of at least ${MIN_KEYS}`,
    requests < MIN_REQUESTS && `${counted(requests, 'request')} of at least 1,000`,
    windows < minWindows && `${counted(windows, 'window')} of ${spanText(windowMs)} of at least ${minWindows}`,
  ]);
  return missing.length === 0 ? undefined : `not enough data: ${missing.join(', ')}`;
}

/** Number of keys required to state, with 95 % confidence, that at most this fraction of keys is hit. */
const requiredKeys = (part: number): number => Math.ceil(Math.log(1 - CONFIDENCE) / Math.log(1 - part));

function assessConfidence(observed: ObservedRule, maxKeysHit: number): RuleAdvice['confidence'] {
  const { requests, keys, oneIn, firstMs, lastMs, days, followed, untracked } = observed;
  const spanDays = (lastMs - firstMs) / DAY_MS;
  const needed = requiredKeys(maxKeysHit);
  const because = present([
    followed.length < needed &&
      `${counted(followed.length, 'key')} can only show that at most ${percent(unseenPart(followed.length))} of keys are hit; ${percent(maxKeysHit)} needs ${needed} keys`,
    spanDays < 1
      ? `it spans ${spanText(lastMs - firstMs)}, not all hours of the day`
      : days < WEEK_DAYS && `it spans ${counted(days, 'day')}, not all days of the week`,
    oneIn > 1 && `only one key in ${oneIn} and those with most hits are tracked`,
    untracked > 0 && `${counted(untracked, 'request')} of keys beyond the limit are not included`,
  ]);
  const isShort = spanDays < 1 || followed.length < needed;
  const grade = isShort ? 'low' : days < WEEK_DAYS ? 'medium' : 'high';
  return { grade, requests, keys, oneIn, first: rfc3339(firstMs), last: rfc3339(lastMs), days, because };
}

/** Fraction of refused keys above which a limit hits normal traffic. */
const FREQUENT_FRACTION = 0.05;
/** Fraction of the hits above which one key dominates the limit. */
const DOMINANT_FRACTION = 0.2;
/** Number of keys below which each has a large share anyway. */
const FEW_KEYS = 10;

type Warning = RuleAdvice['warnings'][number];
type ShownKey = AdviceOptions['shownKey'];

/** Warnings for the operator, independent of the proposal. */
const findWarnings = (
  limit: AdvisedLimit,
  observed: ObservedRule,
  { groups, shownKey }: { readonly groups: KeyGroups; readonly shownKey: ShownKey },
): readonly Warning[] =>
  present([
    firing(limit, observed),
    oneKey(observed, shownKey),
    boundary(limit, observed, shownKey),
    ...sharedKeys(groups, limit, shownKey),
  ]);

function firing(
  { requestsPerUnit, shadow }: AdvisedLimit,
  { refusedHits, followed, windows }: ObservedRule,
): Warning | undefined {
  if (refusedHits === 0) {
    const text = `the limit never fired: the busiest key had ${count(windows.max)} in a window, and the limit is ${count(requestsPerUnit)}`;
    return { kind: 'never_fires', text };
  }
  const [refused, all] = [
    totalWeight(followed.filter(({ arrivals }) => arrivals.refusedHits > 0)),
    totalWeight(followed),
  ];
  if (refused <= FREQUENT_FRACTION * all) return undefined;
  const keys = `${counted(Math.round(refused), 'key')} (${share(refused, all)})`;
  const text = `the limit ${shadow ? 'would refuse' : 'refuses'} ${keys}: more than ${FREQUENT_FRACTION * 100} % are not exceptions`;
  return { kind: 'fires_often', text };
}

function oneKey({ hits, keys, followed }: ObservedRule, shownKey: ShownKey): Warning | undefined {
  if (keys < FEW_KEYS) return undefined;
  let heaviest: FollowedKey | undefined;
  for (const one of followed) if (one.arrivals.hits > (heaviest?.arrivals.hits ?? 0)) heaviest = one;
  if (!heaviest || heaviest.arrivals.hits <= DOMINANT_FRACTION * hits) return undefined;
  const part = share(heaviest.arrivals.hits, hits);
  return { kind: 'one_key', text: `${shownKey(heaviest.key)} has ${part} of all hits: consider a rule of its own` };
}

function boundary(
  { requestsPerUnit, algorithm }: AdvisedLimit,
  { admitted, windowMs }: ObservedRule,
  shownKey: ShownKey,
): Warning | undefined {
  if (!findNamedRow(algorithm).windows || !admitted || admitted.hits <= requestsPerUnit) return undefined;
  const times = Number((admitted.hits / Math.max(requestsPerUnit, 1)).toPrecision(2));
  const got = `${shownKey(admitted.key)} got ${count(admitted.hits)} through within ${spanText(windowMs)}, ${times} times the limit`;
  if (admitted.hits <= 2 * requestsPerUnit)
    return { kind: 'boundary', text: `${got}: a fixed window restarts at each boundary` };
  const text = `${got}, and the boundary of a fixed window admits only twice as much: was there an override, a reset, or an answer without counters?`;
  return { kind: 'beyond_boundary', text };
}

/** Maximum number of named keys with many clients. */
const MAX_NAMED = 3;

function sharedKeys({ shared }: KeyGroups, { rule }: AdvisedLimit, shownKey: ShownKey): readonly Warning[] {
  const texts = shared
    .toSorted((one, other) => other.arrivals.hits - one.arrivals.hits)
    .slice(0, MAX_NAMED)
    .map((one) => {
      const clients = clientsBehind(one);
      const each = Number((one.arrivals.busiest / clients).toPrecision(2));
      return `${shownKey(one.key)} is about ${count(clients)} clients behind one address or name, with ${each} each in its busiest window: give it a rule of its own below ${rule}, or count by client`;
    });
  const more = shared.length - texts.length;
  if (more > 0) texts.push(`${counted(more, 'further key')} with many clients behind one address or name`);
  return texts.map((text) => ({ kind: 'many_clients', text }));
}
