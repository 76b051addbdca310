import { DATE_TIME, limitKeys } from '../../engine/rules/read/limit-keys.ts';

/** Hours of the day: `22:00-06:00`. The end of a day is 24:00. */
export const HOURS = '^([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$';

/** The keys of a limit. */
export const active = {
  type: 'block',
  of: 'active',
  times: true,
  meaning: 'when the limit applies; outside these times it neither counts nor refuses; absent: always',
} as const;

export const schedule = {
  type: 'list',
  of: 'scheduled',
  times: true,
  minimum: 1,
  maximum: 16,
  meaning: 'limits that replace this one at certain times; if several are active, the first applies',
} as const;

export const scheduledBlock = {
  active: { type: 'block', of: 'active', required: true, meaning: 'when these numbers apply' },
  unlimited: { ...limitKeys.unlimited, meaning: 'the limit does not apply at these times; instead of other keys' },
  unit: limitKeys.unit,
  unit_multiplier: limitKeys.unit_multiplier,
  window: limitKeys.window,
  requests_per_unit: limitKeys.requests_per_unit,
  budget: limitKeys.budget,
  algorithm: limitKeys.algorithm,
  alignment: limitKeys.alignment,
  timezone: limitKeys.timezone,
  soft: limitKeys.soft,
  count_denied: limitKeys.count_denied,
  rounding: limitKeys.rounding,
  buckets: limitKeys.buckets,
  burst: limitKeys.burst,
  refill: limitKeys.refill,
  max_delay: limitKeys.max_delay,
} as const;

export const activeBlock = {
  from: { type: 'text', pattern: DATE_TIME, meaning: 'start, inclusive: 2026-11-27T00:00' },
  until: { type: 'text', pattern: DATE_TIME, meaning: 'end, exclusive: 2026-12-01T00:00' },
  days: {
    type: 'texts',
    meaning: 'days of the week on which the hours begin: mon, mon-fri, [sat, sun]; absent: all',
  },
  hours: {
    type: 'texts',
    pattern: HOURS,
    meaning: 'times of day, with an exclusive end: 09:00-17:00, 22:00-06:00, [00:00-02:00, 12:00-13:00]; absent: all',
  },
  timezone: {
    type: 'text',
    meaning: 'time zone of these times, a name of the IANA database; absent: UTC',
  },
} as const;
