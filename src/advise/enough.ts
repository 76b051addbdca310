import { rfc3339 } from '../admin/times.ts';
import { counted } from '../replay/report/texts.ts';
import { spanText } from '../replay/report.ts';
import { percent } from '../replay/thresholds.ts';
import type { Confidence } from './advised-rule.ts';
import type { ObservedRule } from './rule-sketch.ts';
import { CONFIDENCE, unseenPart } from './weighted-values.ts';

/** Below these, nothing is proposed. */
const MIN_KEYS = 30;
const MIN_REQUESTS = 1_000;
const MIN_WINDOWS = 10;
/** Of windows of a day and longer. */
const MIN_LONG_WINDOWS = 3;

const DAY_MS = 86_400_000;
/** From here on the days of a week differ no more than weeks do. */
const WEEK_DAYS = 7;

/** Why too little was seen to propose anything; undefined: it was enough. */
export function refusalOf({ keys, requests, firstMs, lastMs, windowMs, followed }: ObservedRule): string | undefined {
  const minWindows = windowMs >= DAY_MS ? MIN_LONG_WINDOWS : MIN_WINDOWS;
  const windows = Math.floor((lastMs - firstMs) / windowMs);
  const known = Math.min(keys, followed.length);
  const missing = [
    ...(known < MIN_KEYS ? [`${counted(known, 'key')} of at least ${MIN_KEYS}`] : []),
    ...(requests < MIN_REQUESTS ? [`${counted(requests, 'request')} of at least 1,000`] : []),
    ...(windows < minWindows
      ? [`${counted(windows, 'window')} of ${spanText(windowMs)} of at least ${minWindows}`]
      : []),
  ];
  return missing.length === 0 ? undefined : `too little was seen: ${missing.join(', ')}`;
}

/** Keys that it takes to say that no more than a part of them is hit, with 95 % confidence. */
export const keysFor = (part: number): number => Math.ceil(Math.log(1 - CONFIDENCE) / Math.log(1 - part));

export function confidenceOf(observed: ObservedRule, maxKeysHit: number): Confidence {
  const { requests, keys, oneIn, firstMs, lastMs, days, followed, untracked } = observed;
  const spanDays = (lastMs - firstMs) / DAY_MS;
  const needed = keysFor(maxKeysHit);
  const because = [
    ...(followed.length < needed
      ? [
          `${counted(followed.length, 'key')} can show only that at most ${percent(unseenPart(followed.length))} of them are hit; ${percent(maxKeysHit)} takes ${needed}`,
        ]
      : []),
    ...(spanDays < 1
      ? [`it spans ${spanText(lastMs - firstMs)}: other hours of the day are not in it`]
      : days < WEEK_DAYS
        ? [`it spans ${counted(days, 'day')}: other days of the week are not in it`]
        : []),
    ...(oneIn > 1 ? [`one key in ${oneIn} is followed, and those with the most hits`] : []),
    ...(untracked > 0 ? [`${counted(untracked, 'request')} of keys that found no room are not in it`] : []),
  ];
  const isShort = spanDays < 1 || followed.length < needed;
  return {
    grade: isShort ? 'low' : days < WEEK_DAYS ? 'medium' : 'high',
    ...{ requests, keys, oneIn, first: rfc3339(firstMs), last: rfc3339(lastMs), days, because },
  };
}
