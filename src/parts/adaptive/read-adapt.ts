import { durationMs, unitMs } from '../../engine/algorithms/limit.ts';
import { MAX_HELD_SLOTS } from '../../engine/holds/in-flight.ts';
import { isShared, type Limit, limitsInFlight } from '../../engine/holds/limits.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { type AdaptiveLimit, adaptTargets } from './estimate.ts';

const DEFAULT_MIN = 4;
const MIN_WINDOW_MS = 100;
const MAX_WINDOW_MS = unitMs.MINUTE;

/** The limit, with an estimated number of slots if the rule says so. Undefined if it is invalid. */
export function readAdapt(
  { values, place }: Block<'rate_limit'>,
  { limit: fixed, hasId }: { readonly limit: Limit; readonly hasId: boolean },
  problems: Problems,
): Limit | undefined {
  const { adapt } = values;
  if (!adapt || !limitsInFlight(fixed)) return fixed; // it goes with no others
  if (adapt.invalid.size > 0) return undefined; // reported already
  const other = (['requests_per_unit', 'soft'] as const).find((key) => values[key] !== undefined);
  if (other) return problems.error(place(other), `${other} cannot be used with adapt, which has min and max instead`);
  if (!hasId)
    return problems.error(
      place('adapt'),
      'adapt requires the id of the request: put not_counted: hold on this node or one above',
    );
  const report = (key: 'target' | 'min' | 'max' | 'window', message: string): undefined =>
    problems.error(adapt.place(key), message);
  const { target: written = adaptTargets[0], max = MAX_HELD_SLOTS, window = '1s' } = adapt.values;
  const { min = Math.min(DEFAULT_MIN, max) } = adapt.values;
  const target = adaptTargets.find((one) => one === written);
  if (!target) return report('target', `target must be ${adaptTargets.join(' or ')}, got '${written}'`);
  if (max < 1 || max > MAX_HELD_SLOTS) return report('max', `max must be 1 to ${MAX_HELD_SLOTS} slots, got ${max}`);
  if (min < 1 || min > max) return report('min', `min must be 1 to max, which is ${max}, got ${min}`);
  const adaptMs = durationMs(window);
  if (adaptMs === undefined || adaptMs < MIN_WINDOW_MS || adaptMs > MAX_WINDOW_MS)
    return report('window', `window must be a time such as 500ms or 1s, from 100ms to 1m, got '${window}'`);
  const shared = isShared(fixed) ? fixed : undefined;
  return {
    algorithm: 'adaptive',
    counter: `adaptive|${fixed.windowMs}${shared ? '|share' : ''}`, // holds are timed by their ttl
    requestsPerUnit: max,
    soft: 0,
    windowMs: fixed.windowMs,
    min,
    target,
    adaptMs,
    ...(shared && { by: shared.by, path: shared.path, spare: shared.spare }),
  } satisfies AdaptiveLimit;
}
