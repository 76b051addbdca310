import { count, counted, share } from '../replay/report/texts.ts';
import { spanText } from '../replay/report.ts';
import type { AdviceWarning, AdvisedLimit } from './advised-rule.ts';
import { clientsBehind, type KeyGroups, weightOf } from './groups.ts';
import type { FollowedKey, ObservedRule } from './rule-sketch.ts';

/** A limit that refuses a larger share of its keys hits normal traffic. */
const FIRES_OFTEN = 0.05;
/** A key with a larger share of the hits dominates the limit. */
const ONE_KEY = 0.2;
/** With fewer keys, each of them has a large share anyway. */
const FEW_KEYS = 10;

/** Warnings for the operator, independent of the proposal. */
export function warningsOf(
  limit: AdvisedLimit,
  observed: ObservedRule,
  groups: KeyGroups,
  shownKey: (key: string) => string,
): readonly AdviceWarning[] {
  return [
    ...firing(limit, observed),
    ...oneKey(observed, shownKey),
    ...boundary(limit, observed, shownKey),
    ...sharedKeys(groups, limit, shownKey),
  ];
}

function firing({ requestsPerUnit, shadow }: AdvisedLimit, observed: ObservedRule): readonly AdviceWarning[] {
  const { refusedHits, followed, windows } = observed;
  if (refusedHits === 0)
    return [
      {
        kind: 'never_fires',
        text: `the limit never fired: the busiest key had ${count(windows.max)} in a window, and the limit is ${count(requestsPerUnit)}`,
      },
    ];
  const refused = followed.filter(({ arrivals }) => arrivals.refusedHits > 0);
  if (weightOf(refused) <= FIRES_OFTEN * weightOf(followed)) return [];
  const part = share(weightOf(refused), weightOf(followed));
  return [
    {
      kind: 'fires_often',
      text: `the limit ${shadow ? 'would refuse' : 'refuses'} ${counted(Math.round(weightOf(refused)), 'key')} (${part}): more than ${FIRES_OFTEN * 100} % are not exceptions`,
    },
  ];
}

function oneKey({ hits, keys, followed }: ObservedRule, shownKey: (key: string) => string): readonly AdviceWarning[] {
  if (keys < FEW_KEYS) return [];
  let heaviest: FollowedKey | undefined;
  for (const one of followed) if (one.arrivals.hits > (heaviest?.arrivals.hits ?? 0)) heaviest = one;
  if (!heaviest || heaviest.arrivals.hits <= ONE_KEY * hits) return [];
  const part = share(heaviest.arrivals.hits, hits);
  return [{ kind: 'one_key', text: `${shownKey(heaviest.key)} has ${part} of all hits: consider a rule of its own` }];
}

function boundary(
  { requestsPerUnit, algorithm }: AdvisedLimit,
  { admitted, windowMs }: ObservedRule,
  shownKey: (key: string) => string,
): readonly AdviceWarning[] {
  if (algorithm !== 'fixed_window' || !admitted || admitted.hits <= requestsPerUnit) return [];
  const times = Number((admitted.hits / Math.max(requestsPerUnit, 1)).toPrecision(2));
  return [
    {
      kind: 'boundary',
      text: `${shownKey(admitted.key)} got ${count(admitted.hits)} through within ${spanText(windowMs)}, ${times} times the limit: a fixed window restarts at each boundary`,
    },
  ];
}

/** The most keys with many clients that are named. */
const MAX_NAMED = 3;

function sharedKeys(
  { shared }: KeyGroups,
  limit: AdvisedLimit,
  shownKey: (key: string) => string,
): readonly AdviceWarning[] {
  const named = shared
    .toSorted((one, other) => other.arrivals.hits - one.arrivals.hits)
    .slice(0, MAX_NAMED)
    .map((one) => manyClients(one, limit, shownKey));
  const more = shared.length - named.length;
  if (more === 0) return named;
  return [
    ...named,
    { kind: 'many_clients', text: `${counted(more, 'further key')} with many clients behind one address or name` },
  ];
}

function manyClients(one: FollowedKey, { rule }: AdvisedLimit, shownKey: (key: string) => string): AdviceWarning {
  const clients = clientsBehind(one);
  const each = Number((one.arrivals.busiest / clients).toPrecision(2));
  return {
    kind: 'many_clients',
    text: `${shownKey(one.key)} is about ${count(clients)} clients behind one address or name, with ${each} each in its busiest window: give it a rule of its own below ${rule}, or count by client`,
  };
}
