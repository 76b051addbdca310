import { algorithms } from '../../engine/algorithms/index.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { capacityOf, type Limit } from '../../engine/holds/limits.ts';
import type { StateDrawing } from '../answers/explain.ts';

const MAX_TICKS = 200;

export function drawState(limit: Limit, state: State | undefined, nowMs: number): StateDrawing {
  const capacity = capacityOf(limit);
  const { windowMs } = limit;
  switch (limit.algorithm) {
    case 'token_bucket':
    case 'leaky_bucket':
      return { kind: 'level', capacity };
    case 'sliding_window_counter': {
      const { state: now } = algorithms.sliding_window_counter.step(limit, state, nowMs, 0, false);
      const [startMs = 0, count = 0, previous = 0] = now;
      const covered = Math.max(windowMs - Math.max(nowMs - startMs, 0), 0) / windowMs;
      return { kind: 'parts', capacity, parts: [Math.round(previous * covered * 100) / 100, count] };
    }
    case 'sliding_window_buckets': {
      const [, ...counts] = algorithms.sliding_window_buckets.step(limit, state, nowMs, 0, false).state;
      const parts = Array.from({ length: limit.buckets + 1 }, (_, at) => counts[at] ?? 0);
      return { kind: 'parts', capacity, parts: parts.reverse() };
    }
    case 'sliding_window_log': {
      const { state: log } = algorithms.sliding_window_log.step(limit, state, nowMs, 0, false);
      const ticks = Array.from(
        { length: log.length / 2 },
        (_, at) => [Math.max(nowMs - (log[2 * at] ?? 0), 0), log[2 * at + 1] ?? 0] as const,
      );
      return { kind: 'ticks', capacity, windowMs, ticks: ticks.slice(-MAX_TICKS) };
    }
    case 'fixed_window':
    case 'in_flight':
    case 'reservation':
    case 'site_share':
      return { kind: 'window', capacity, windowMs };
  }
}
