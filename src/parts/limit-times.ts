import type { LimitTimes } from '../engine/rules/compile/timed-limit.ts';
import { schedules } from './schedules/schedules.ts';

/** What reads when limits apply. */
export const limitTimes: Readonly<Record<string, LimitTimes>> = {
  schedules,
};
