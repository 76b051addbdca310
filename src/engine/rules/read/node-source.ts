import { type Alternatives, type Block, createBlock } from './block.ts';

/** The part of a node that determines its key, its name, and whether it has limits. */
export interface NodeHead {
  readonly key?: string;
  readonly value?: string;
  readonly addresses?: readonly string[];
  readonly share_threshold?: boolean;
  readonly value_to_metric?: boolean;
  readonly not_counted?: string;
  readonly rate_limit?: unknown;
  readonly rate_limits?: readonly unknown[];
  readonly share?: unknown;
  readonly blocked_by?: readonly string[];
  /** The block above has `match: any_order`. */
  readonly anyOrder?: boolean;
  /** What `require` of the block above demands, if the node counts the requests that lack it. */
  readonly required?: Requirement;
}

/** The keys that requests must carry. */
export interface Requirement {
  /** Lists of keys, all of which a request must carry of at least one. */
  readonly keys: Alternatives;
  /** What happens to requests that do not. */
  readonly otherwise: 'refuse' | 'limit' | 'allow';
  /** The keys whose values have counters of their own. */
  readonly per: readonly string[];
}

/** The part of a node's names that stands for its values; empty for any value. */
export const valueName = ({ value = '', addresses }: NodeHead): string => addresses?.[0] ?? value;

/** `user_alice`, `path_/login*`, `remote_address_10.0.0.0/8`, `user`: the name of a node among its siblings. */
export function compositeName(head: NodeHead): string {
  const { key = '' } = head;
  const value = valueName(head);
  return value === '' ? key : `${key}_${value}`;
}

/** Identifies a node among its siblings; of its blocks of addresses, by the first. */
export const nodeId = (head: NodeHead): string =>
  `${head.key?.length}:${head.key}${head.addresses ? ' in ' : '='}${valueName(head)}`;

/** A node's limits as written, including `unlimited`. */
export const listLimits = ({ values: { rate_limit: only, rate_limits: several = [] } }: Block<'node'>) =>
  only ? [only] : several;

/** The key by whose values a node's limit, or its part of one, is shared. */
export const sharedKey = ({ share, rate_limit: limit }: Block<'node'>['values']): string | undefined =>
  share?.values.by ?? limit?.values.share?.values.by;

/** The list itself if no item changes. */
export function mapChanged<T>(items: readonly T[], change: (item: T) => T): readonly T[] {
  const changed = items.map(change);
  return changed.every((one, at) => one === items[at]) ? items : changed;
}

/** A file or a node with changed limits; itself if none changes. */
export function mapLimits<B extends Block<'file'> | Block<'node'>>(
  block: B,
  change: (limit: Block<'rate_limit'>) => Block<'rate_limit'>,
): B {
  const before: Pick<Block<'node'>['values'], 'rate_limit' | 'rate_limits' | 'descriptors'> = block.values;
  const { rate_limit: only, rate_limits: several, descriptors } = before;
  const after = {
    ...(only && { rate_limit: change(only) }),
    ...(several && { rate_limits: mapChanged(several, change) }),
    ...(descriptors && { descriptors: mapChanged(descriptors, (node) => mapLimits(node, change)) }),
  };
  const isSame = after.rate_limit === only && after.rate_limits === several && after.descriptors === descriptors;
  return isSame ? block : { ...block, values: { ...block.values, ...after } };
}

/**
 * The nodes below a node. If its limit is shared by the values of a key, there is one for those that are not listed.
 */
export function childBlocks({ values, place }: Block<'node'>): readonly Block<'node'>[] {
  const { descriptors = [] } = values;
  const key = sharedKey(values);
  const isAny = ({ values: { key: own, value = '', addresses } }: Block<'node'>): boolean =>
    own === key && value === '' && !addresses;
  if (key === undefined || descriptors.some(isAny)) return descriptors;
  const here = place();
  return [...descriptors, createBlock<'node'>({ key, share: createBlock<'child'>({}, here) }, here)];
}
