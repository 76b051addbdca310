import type { Block } from '../read/block.ts';
import { type Field, format } from '../read/format.ts';

type LimitBlock = Block<'rate_limit'>;
type LimitKey = keyof LimitBlock['values'];

/** Lays a limit's keys over another's: all upper keys, and those lower ones that are still valid with them. */
export function laidLimit(lower: LimitBlock, upper: LimitBlock): LimitBlock {
  const given = new Set(Object.keys(upper.values));
  const gone = goneWith(upper.values, typeof lower.values.alignment === 'string');
  const kept = Object.entries(lower.values).filter(([key]) => !gone(key as LimitKey)); // the reader keeps no others
  return {
    ...lower,
    values: { ...Object.fromEntries(kept), ...upper.values },
    invalid: new Set([...lower.invalid, ...upper.invalid]),
    place: (key) => (key !== undefined && given.has(key) ? upper : lower).place(key),
  };
}

/**
 * Returns which keys of a limit become meaningless under the keys laid over it, for example the `buckets` of an
 * algorithm that is replaced.
 *
 * @param isNamed  the limit's alignment is a name, which not every algorithm that takes an anchor accepts
 */
function goneWith(values: LimitBlock['values'], isNamed: boolean) {
  const { algorithm, unit, window, ttl, alignment, requests_per_unit: requests, budget, per_replica: each } = values;
  const gone = new Set<LimitKey>([
    ...(window === undefined ? [] : (['unit', 'unit_multiplier'] as const)),
    ...(unit === undefined ? [] : (['window', 'unit_multiplier'] as const)),
    ...(unit === undefined && window === undefined ? [] : (['ttl'] as const)),
    ...(ttl === undefined ? [] : (['unit', 'unit_multiplier', 'window'] as const)),
    ...(requests === undefined ? [] : (['budget'] as const)),
    ...(budget === undefined ? [] : (['requests_per_unit', 'soft', 'burst'] as const)),
    ...(each === undefined ? [] : (['requests_per_unit', 'budget', 'soft', 'burst'] as const)),
    ...(requests === undefined && budget === undefined ? [] : (['per_replica', 'replicas'] as const)),
    ...(alignment === undefined ? [] : (['timezone'] as const)),
  ]);
  return (key: LimitKey): boolean => {
    // algorithms that have a time zone accept named alignments
    const { goesWith }: Field = format.rate_limit[key === 'alignment' && isNamed ? 'timezone' : key];
    return gone.has(key) || (algorithm !== undefined && goesWith?.every((name) => name !== algorithm) === true);
  };
}
