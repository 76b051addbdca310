import { DEFAULT_ALGORITHM } from '../../algorithms/index.ts';
import type { Spend } from '../../algorithms/limit.ts';
import type { SiteSplit } from '../../holds/claim.ts';
import { findNamedRow, namedAlgorithms } from '../../holds/limits.ts';
import type { Block } from '../read/block.ts';
import { blocking, dividing, format, reserving, timed } from '../read/format.ts';
import { listLimits, mapLimits } from '../read/node-source.ts';
import type { Problems } from '../read/problem.ts';

/** What a store was found unable to do. */
export interface StoreLimitation {
  /** Why it runs no scripts, and so counts fixed windows alone; undefined if it runs them, or if it is not known. */
  reason(): string | undefined;
  /** Asks the store if a reason was asked for. Returns whether it has changed. */
  learn(): Promise<boolean>;
}

/** The capabilities of the counters' store that rules may require. */
export interface StoreTraits {
  readonly name: string;
  /** The scope of an atomic step: the whole request, or one counter. */
  readonly atomic: 'request' | 'counter';
  /** Whether it keeps states with an entry for each hit or holder, or of several nodes. */
  readonly keepsEntries: boolean;
  /** Whether blocks of hits can be leased from its counters. */
  readonly leases: boolean;
  /** Whether limits that can be leased are, unless their rules specify it. */
  readonly leasesByDefault?: boolean;
  /** Division of limits that sites share; undefined if SITE is not set. */
  readonly split?: SiteSplit | undefined;
  /** The `spend` of domains that do not set it. */
  readonly spend: Spend;
  /** What needs scripts, whatever the rules are. */
  readonly needsScripts?: string | undefined;
  /** Absent: it runs scripts. */
  readonly limitation?: StoreLimitation | undefined;
}

/** Reports what rules require and the store cannot do. */
export function checkFit(files: readonly Block<'file'>[], store: StoreTraits, problems: Problems): void {
  for (const { values, place } of files) {
    if (store.atomic === 'counter' && values.spend && values.spend !== ('each' satisfies Spend)) {
      const message = `${values.spend} requires all limits of a request to be counted in one step, which ${store.name} cannot do`;
      problems.error(place('spend'), message);
    }
    const spend = values.spend ?? store.spend;
    if (store.needsScripts) checkScripts(place('domain'), store.needsScripts, store, problems);
    if (spend !== ('each' satisfies Spend)) checkScripts(place('spend'), spend, store, problems);
    checkNodes(values.descriptors ?? [], { ...store, spend }, problems);
  }
}

/** Reports what needs a script. */
function checkScripts(
  place: Parameters<Problems['error']>[0],
  what: string,
  { name, limitation }: Pick<StoreTraits, 'name' | 'limitation'>,
  problems: Problems,
): void {
  const reason = limitation?.reason();
  if (reason) problems.error(place, `${what} needs a script, which cannot run in ${name}: ${reason}`);
}

/** @param store  with the `spend` of the domain */
function checkNodes(
  nodes: readonly Block<'node'>[],
  store: Omit<StoreTraits, 'spend'> & { readonly spend: string },
  problems: Problems,
): void {
  const { spend } = store;
  for (const node of nodes) {
    for (const limit of listLimits(node)) {
      const { consistency, charge, share } = limit.values;
      const report = (key: keyof typeof limit.values, message: string): void =>
        problems.error(limit.place(key), message);
      if (consistency === 'leased' && !store.leases)
        report('consistency', `consistency: leased saves calls to Redis, and the counters are in ${store.name}`);
      if (consistency === 'leased' && spend !== ('each' satisfies Spend))
        report(
          'consistency',
          `consistency: leased counts each limit separately, and cannot be used with spend: ${spend}`,
        );
      if (charge === 'always' && spend !== ('each' satisfies Spend))
        report('charge', `charge: always counts refused hits, which spend: ${spend} may leave out`);
      for (const key of dividing)
        if (limit.values[key] && !store.split)
          report(key, `${key} requires SITE and SITE_PEERS, which name the sites that share the limit`);
      for (const key of reserving)
        if (limit.values[key] && !store.keepsEntries)
          report(key, `reservations cannot be kept in ${store.name}; use Redis`);
      if (share && !store.keepsEntries) report('share', `shared limits cannot be counted in ${store.name}; use Redis`);
      for (const key of [...dividing, ...blocking, ...reserving, 'share'] as const)
        if (limit.values[key]) checkScripts(limit.place(key), key, store, problems);
      for (const one of [limit, ...replacements(limit)]) checkAlgorithm(one, store, problems);
    }
    checkNodes(node.values.descriptors ?? [], store, problems);
  }
}

/** The limits that replace one at certain times. */
const replacements = ({ values }: Block<'rate_limit'>): readonly Block<'rate_limit'>[] =>
  timed.flatMap((key) => (Array.isArray(values[key]) ? (values[key] as readonly Block<'rate_limit'>[]) : [])); // with keys of limits

function checkAlgorithm(
  { values, place }: Block<'rate_limit'>,
  store: Pick<StoreTraits, 'name' | 'keepsEntries' | 'limitation'>,
  problems: Problems,
): void {
  const named = namedAlgorithms.find((algorithm) => algorithm === values.algorithm);
  if (!named) return;
  const { startBefore, state } = findNamedRow(named);
  if (!startBefore) checkScripts(place('algorithm'), named, store, problems);
  if (store.keepsEntries || !state.keepsEntries) return;
  problems.error(place('algorithm'), `${named} cannot be counted in ${store.name}; use another algorithm, or Redis`);
}

/** Writes `consistency: leased` into limits that can be leased and name none, if the store leases by default. */
export function leaseByDefault(
  files: readonly Block<'file'>[],
  store: StoreTraits | undefined,
): readonly Block<'file'>[] {
  if (!store?.leasesByDefault || !store.leases) return files;
  const { spend: byDefault } = store;
  return files.map((file) =>
    (file.values.spend ?? byDefault) === ('each' satisfies Spend) ? mapLimits(file, leaseLimit) : file,
  );
}

const leaseLimit = (limit: Block<'rate_limit'>): Block<'rate_limit'> =>
  isLeasable(limit.values) ? { ...limit, values: { ...limit.values, consistency: 'leased' } } : limit;

function isLeasable(values: Block<'rate_limit'>['values']): boolean {
  const { algorithm = DEFAULT_ALGORITHM, consistency, unlimited, soft = 0, charge = 'accepted' } = values;
  const leased: readonly string[] = format.rate_limit.consistency.goesWith;
  if (consistency !== undefined || unlimited || !leased.includes(algorithm)) return false;
  const others = [...dividing, ...blocking, ...reserving, 'max_delay', 'share'] as const;
  return soft === 0 && charge === 'accepted' && others.every((key) => values[key] === undefined);
}
