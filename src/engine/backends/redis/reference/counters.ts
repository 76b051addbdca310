import { algorithmNames, fullCapacity } from '../../../holds/limits.ts';
import { describeShared } from '../../shared-counters.ts';
import type { ForeignCounters } from '../batch.ts';
import { assembleScript } from '../script.ts';

/** Redis's errors for values that are not counters, by the script's outcome. */
const reasons: Readonly<Record<number, string>> = {
  4: 'redis: WRONGTYPE Operation against a key holding the wrong kind of value',
  5: 'redis: ERR value is not an integer or out of range',
};

/** The step's place, after those of the algorithms. */
const STEP = algorithmNames.length + 1;

/**
 * `COUNTER_KEYS=reference` in Redis: counters that envoyproxy/ratelimit counts on as well, in addition to the service's
 * own.
 */
export const referenceCounters: ForeignCounters = {
  script: assembleScript([new URL('./shared-window.lua', import.meta.url)]),
  has: ({ shared }) => shared !== undefined,
  pack: ({ limit, shared }) => [STEP, 2, fullCapacity(limit), shared?.ttlMs ?? 0],
  describe: ({ limit, shared }, report, nowMs, outcome) =>
    describeShared(limit, shared ?? { windowStartMs: 0, ttlMs: 0 }, report, nowMs, outcome),
  unusable: (outcome) => reasons[outcome],
};
