import type { Block } from '../read/block.ts';
import { reserving, timed } from '../read/format.ts';

type LimitValues = Block<'rate_limit'>['values'];

/** Keys that no limit with several parts can have: a part could exceed its share, or answer without the limit. */
export function listExcluded(values: LimitValues): readonly (keyof LimitValues)[] {
  const isAllowed: Partial<Record<keyof LimitValues, boolean>> = {
    soft: (values.soft ?? 0) === 0,
    charge: (values.charge ?? 'accepted') === 'accepted',
    consistency: (values.consistency ?? 'strict') === 'strict',
    max_delay: values.max_delay === undefined,
    ...Object.fromEntries([...reserving, ...timed].map((key) => [key, values[key] === undefined])),
    on_change: (values.on_change ?? 'keep') === 'keep',
    on_store_failure: values.on_store_failure !== 'local',
  };
  return (Object.keys(isAllowed) as (keyof LimitValues)[]).filter((key) => !isAllowed[key]);
}
