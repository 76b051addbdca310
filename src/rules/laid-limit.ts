import { type Field, format } from './format.ts';
import type { Block } from './read.ts';

type LimitBlock = Block<'rate_limit'>;
type LimitKey = keyof LimitBlock['values'];

/** A limit with what another block says of it: that block's keys, and those of the limit that still go with them. */
export function laidLimit(lower: LimitBlock, upper: LimitBlock): LimitBlock {
  const given = new Set(Object.keys(upper.values));
  const gone = goneWith(upper.values, typeof lower.values.alignment === 'string');
  const kept = Object.entries(lower.values).filter(([key]) => !gone(key as LimitKey)); // the reader keeps no others
  return {
    ...lower,
    values: { ...Object.fromEntries(kept), ...upper.values },
    wrong: new Set([...lower.wrong, ...upper.wrong]),
    place: (key) => (key !== undefined && given.has(key) ? upper : lower).place(key),
  };
}

/**
 * Which keys of a limit have no meaning once others have been laid over it: the `buckets` of an algorithm that is
 * replaced, say.
 *
 * @param isNamed  the limit's alignment has a name: an algorithm that takes an anchor may not take that
 */
function goneWith(
  { algorithm, unit, window, ttl, on_store_failure: policy, alignment }: LimitBlock['values'],
  isNamed: boolean,
) {
  const gone = new Set<LimitKey>([
    ...(window === undefined ? [] : (['unit', 'unit_multiplier'] as const)),
    ...(unit === undefined ? [] : (['window', 'unit_multiplier'] as const)),
    ...(unit === undefined && window === undefined ? [] : (['ttl'] as const)),
    ...(ttl === undefined ? [] : (['unit', 'unit_multiplier', 'window'] as const)),
    ...(policy === undefined ? [] : (['local_share'] as const)),
    ...(alignment === undefined ? [] : (['timezone'] as const)),
  ]);
  return (key: LimitKey): boolean => {
    // what has a time zone of its own takes names
    const { goesWith }: Field = format.rate_limit[key === 'alignment' && isNamed ? 'timezone' : key];
    return gone.has(key) || (algorithm !== undefined && goesWith?.every((name) => name !== algorithm) === true);
  };
}
