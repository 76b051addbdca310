import { rfc3339 } from '../../base/times.ts';
import { counted } from '../replay/report/texts.ts';
import { spanText } from '../replay/report.ts';
import { percent } from '../replay/thresholds.ts';
import type { Confidence } from './advised-rule.ts';
import type { ObservedRule } from './rule-sketch.ts';
import { CONFIDENCE, unseenPart } from './weighted-values.ts';

/** With less than this, nothing is proposed. */
const MIN_KEYS = 30;
const MIN_REQUESTS = 1_000;
const MIN_WINDOWS = 10;
/** For windows of a day or longer. */
const MIN_LONG_WINDOWS = 3;

const DAY_MS = 86_400_000;
/** The days of a week differ: a shorter observation lowers the confidence. */
const WEEK_DAYS = 7;

/** Why there was too little traffic to propose anything; undefined: there was enough. */
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
  return missing.length === 0 ? undefined : `not enough data: ${missing.join(', ')}`;
}

/** The number of keys needed to say, with 95 % confidence, that at most this share of keys is hit. */
const keysFor = (part: number): number => Math.ceil(Math.log(1 - CONFIDENCE) / Math.log(1 - part));

export function confidenceOf(observed: ObservedRule, maxKeysHit: number): Confidence {
  const { requests, keys, oneIn, firstMs, lastMs, days, followed, untracked } = observed;
  const spanDays = (lastMs - firstMs) / DAY_MS;
  const needed = keysFor(maxKeysHit);
  const because = [
    ...(followed.length < needed
      ? [
          `${counted(followed.length, 'key')} show only that at most ${percent(unseenPart(followed.length))} of keys are hit; ${percent(maxKeysHit)} needs ${needed} keys`,
        ]
      : []),
    ...(spanDays < 1
      ? [`it spans ${spanText(lastMs - firstMs)}: not all hours of the day are covered`]
      : days < WEEK_DAYS
        ? [`it spans ${counted(days, 'day')}: not all days of the week are covered`]
        : []),
    ...(oneIn > 1 ? [`only one key in ${oneIn} is followed, and the keys with the most hits`] : []),
    ...(untracked > 0 ? [`${counted(untracked, 'request')} of keys that found no room are not included`] : []),
  ];
  const isShort = spanDays < 1 || followed.length < needed;
  return {
    grade: isShort ? 'low' : days < WEEK_DAYS ? 'medium' : 'high',
    ...{ requests, keys, oneIn, first: rfc3339(firstMs), last: rfc3339(lastMs), days, because },
  };
}
