import { algorithmNames, fullCapacity } from '../../../holds/limits.ts';
import { describeShared } from '../../shared-counters.ts';
import type { ForeignCounters } from '../batch.ts';

/** The place in the script's table, after those of the algorithms. */
const PLACE = algorithmNames.length + 1;

/**
 * `COUNTER_KEYS=reference` in Redis: counters that envoyproxy/ratelimit counts on as well, in addition to the service's
 * own.
 */
export const referenceCounters: ForeignCounters = {
  has: ({ shared }) => shared !== undefined,
  pack: ({ limit, shared }) => [PLACE, 2, fullCapacity(limit), shared?.ttlMs ?? 0],
  describe: ({ limit, shared }, report, nowMs, outcome) =>
    describeShared(limit, shared ?? { windowStartMs: 0, ttlMs: 0 }, report, nowMs, outcome),
};
