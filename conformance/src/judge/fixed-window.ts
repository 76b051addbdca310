import {
  type Call,
  type Clocks,
  earliest,
  enough,
  type Finding,
  hasPassed,
  type Judge,
  latest,
  mayCount,
  sumOf,
  times,
} from './call.ts';
import { isExact, type Limit } from './limits.ts';
import { Sums } from './sums.ts';
import { type Window, windowsOf } from './windows.ts';

/**
 * Within a window a counter only grows. So each call that passed has a place of its own, from the count before it to
 * the count after it, which its answer states as the limit less what is left. Places must not overlap, must fit into the
 * limit, must follow each other as the calls do that did not overlap in time, and what is before a place must be the
 * hits of other calls.
 */
export const judgeFixedWindow: Judge = (calls, limit, clocks) =>
  [...windowsOf(calls, limit, clocks).values()].flatMap((window) => [
    ...judgeSum(window, limit),
    ...(isExact(limit) ? judgePlaces(window, limit) : []),
    ...judgeRefusals(window, limit),
    ...judgeResets(window, clocks),
  ]);

function judgeSum({ certain }: Window, limit: Limit): readonly Finding[] {
  const passed = certain.filter(hasPassed);
  const most = limit.limit + limit.slack;
  if (sumOf(passed) <= most) return [];
  return [{ why: `in one window at most ${most} could pass; ${sumOf(passed)} did`, calls: enough(passed, most) }];
}

interface Place {
  readonly call: Call;
  readonly from: number;
  readonly to: number;
}

function judgePlaces({ certain, possible }: Window, limit: Limit): readonly Finding[] {
  const answered = certain.filter((call) => hasPassed(call) && call.hits > 0 && !Number.isNaN(call.remaining));
  const places = answered
    .map((call) => ({ call, from: limit.limit - call.remaining - call.hits, to: limit.limit - call.remaining }))
    .sort((a, b) => a.from - b.from || a.call.start - b.call.start);
  const outside = places.find(({ from, to }) => from < 0 || to > limit.limit);
  if (outside) return [{ why: `no count of this limit leaves ${outside.call.remaining}`, calls: [outside.call] }];
  return [...judgeNeighbours(places), ...judgeCauses(places, [...certain, ...possible], certain, limit)];
}

function judgeNeighbours(places: readonly Place[]): readonly Finding[] {
  let before: Place | undefined; // of those before, the one that began last
  for (const [at, place] of places.entries()) {
    const previous = places[at - 1];
    if (previous && place.from < previous.to)
      return [
        { why: `two calls were counted as hit ${place.from + 1} of one window`, calls: [previous.call, place.call] },
      ];
    if (before && place.call.end < before.call.start)
      return [
        {
          why: `hit ${before.to} was counted before hit ${place.to}, but began after it was answered`,
          calls: [place.call, before.call],
        },
      ];
    if (!before || place.call.start > before.call.start) before = place;
  }
  return [];
}

/** The hits before a place are those of calls that had begun, and of all that had been answered. */
function judgeCauses(
  places: readonly Place[],
  all: readonly Call[],
  certain: readonly Call[],
  limit: Limit,
): readonly Finding[] {
  const begun = new Sums(all.filter((call) => mayCount(call, limit)).map(({ start, hits }) => [start, hits]));
  const answered = new Sums(certain.filter(hasPassed).map(({ end, hits }) => [end, hits]));
  for (const { call, from } of places) {
    const most = begun.upTo(call.end) - call.hits;
    if (from > most)
      return [{ why: `${from} hits were counted before it, but at most ${most} had begun`, calls: [call] }];
    const least = answered.before(call.start);
    if (from < least)
      return [{ why: `${from} hits were counted before it, but ${least} had been answered`, calls: [call] }];
  }
  return [];
}

function judgeRefusals({ certain, possible }: Window, limit: Limit): readonly Finding[] {
  const counted = [...certain, ...possible].filter((call) => mayCount(call, limit));
  const begun = new Sums(counted.map(({ start, hits }) => [start, hits]));
  for (const call of certain.filter(({ outcome }) => outcome === 'refused')) {
    const most = begun.upTo(call.end) - (limit.countsRefused ? call.hits : 0);
    if (most + Math.max(1, call.hits) <= limit.limit - limit.early)
      return [{ why: `refused although at most ${most} of ${limit.limit} were taken`, calls: [call] }];
  }
  return [];
}

/** Resets are stated in whole seconds, rounded in either direction. */
const RESET_STEP_MS = 1_000;

function judgeResets({ certain, endMs }: Window, clocks: Clocks): readonly Finding[] {
  const wrong = certain.find((call) => {
    if (Number.isNaN(call.resetMs) || call.outcome === 'unknown') return false;
    const least = endMs - latest(call, clocks) - RESET_STEP_MS;
    const most = endMs - earliest(call, clocks) + RESET_STEP_MS;
    return call.resetMs < least || call.resetMs > most;
  });
  if (!wrong) return [];
  const left = times(endMs - wrong.end);
  return [{ why: `states a reset in ${times(wrong.resetMs)}, but its window ends in ${left}`, calls: [wrong] }];
}
