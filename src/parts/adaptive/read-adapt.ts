import { durationMs, unitMs } from '../../engine/algorithms/limit.ts';
import { MAX_HELD_SLOTS } from '../../engine/holds/in-flight.ts';
import { isShared, type Limit, limitsInFlight } from '../../engine/holds/limits.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { choiceReader } from '../../engine/rules/read/choice.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { type AdaptiveLimit, adaptTargets } from './estimate.ts';

const DEFAULT_MIN = 4;
const MIN_WINDOW_MS = 100;
const MAX_WINDOW_MS = unitMs.MINUTE;

/** The limit, with an estimated number of slots if the rule says so. Undefined if it is invalid. */
export function readAdapt(
  { values, place }: Block<'rate_limit'>,
  { limit: fixed, hasId }: { readonly limit: Limit | undefined; readonly hasId: boolean },
  problems: Problems,
): Limit | undefined {
  const { adapt } = values;
  if (!adapt || (fixed && !limitsInFlight(fixed))) return fixed; // it goes with no others
  const before = problems.all.length;
  for (const key of ['requests_per_unit', 'soft'] as const)
    if (values[key] !== undefined)
      problems.error(place(key), `${key} cannot be used with adapt, which has min and max instead`);
  if (!hasId)
    problems.error(
      place('adapt'),
      'adapt requires the id of the request: put not_counted: hold on this node or one above',
    );
  const report = (key: 'target' | 'min' | 'max' | 'window', message: string): undefined =>
    problems.error(adapt.place(key), message);
  const { max = MAX_HELD_SLOTS, window = '1s' } = adapt.values;
  const { min = Math.min(DEFAULT_MIN, max) } = adapt.values;
  const target = choiceReader(adapt.values, report)('target', adaptTargets);
  if (max < 1 || max > MAX_HELD_SLOTS) report('max', `max must be 1 to ${MAX_HELD_SLOTS} slots, got ${max}`);
  else if (min < 1 || min > max) report('min', `min must be 1 to max, which is ${max}, got ${min}`);
  const adaptMs = durationMs(window);
  const isTime = adaptMs !== undefined && adaptMs >= MIN_WINDOW_MS && adaptMs <= MAX_WINDOW_MS;
  if (!isTime) report('window', `window must be a time such as 500ms or 1s, from 100ms to 1m, got '${window}'`);
  if (!fixed || !target || !isTime || adapt.invalid.size > 0 || problems.all.length > before) return undefined;
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
