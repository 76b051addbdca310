import { DEFAULT_ALGORITHM } from '../../algorithms/index.ts';
import type { Spend } from '../../algorithms/limit.ts';
import type { Block } from '../read/block.ts';
import { format } from '../read/format.ts';
import type { StoreTraits } from './fit.ts';

/**
 * Writes `consistency: leased` into all limits that can be leased and name no consistency. Does nothing unless the store
 * leases by default.
 */
export function leaseByDefault(
  files: readonly Block<'file'>[],
  store: StoreTraits | undefined,
): readonly Block<'file'>[] {
  if (!store?.leasesByDefault || !store.leases) return files;
  return files.map((file) => {
    const { descriptors, spend = store.spend } = file.values;
    if (!descriptors || spend !== ('each' satisfies Spend)) return file;
    return { ...file, values: { ...file.values, descriptors: descriptors.map(leaseNode) } };
  });
}

function leaseNode(node: Block<'node'>): Block<'node'> {
  const { descriptors, rate_limit: limit, rate_limits: limits } = node.values;
  return {
    ...node,
    values: {
      ...node.values,
      ...(descriptors && { descriptors: descriptors.map(leaseNode) }),
      ...(limit && { rate_limit: leaseLimit(limit) }),
      ...(limits && { rate_limits: limits.map(leaseLimit) }),
    },
  };
}

const leaseLimit = <B extends Block<'rate_limit'>>(limit: B): B =>
  isLeasable(limit.values) ? { ...limit, values: { ...limit.values, consistency: 'leased' } } : limit;

function isLeasable(values: Block<'rate_limit'>['values']): boolean {
  const { algorithm = DEFAULT_ALGORITHM, consistency, unlimited, soft = 0, charge = 'accepted' } = values;
  const leased: readonly string[] = format.rate_limit.consistency.goesWith;
  if (consistency !== undefined || unlimited || !leased.includes(algorithm)) return false;
  if (values.penalty || values.reserve || values.sites || values.share) return false;
  return soft === 0 && charge === 'accepted' && !values.max_delay;
}
