import type { Decider } from '../../../engine/decide/decide.ts';
import {
  algorithmFor,
  describeCounter,
  isShared,
  limitsInFlight,
  nominalCapacity,
  type SharedLimit,
} from '../../../engine/holds/limits.ts';
import type { ShareReport } from '../../../engine/holds/reports.ts';
import { claimShare } from '../../../engine/holds/sharing.ts';
import { createDebit, type Debit, sharedBy } from '../../../engine/ledger/debit.ts';
import type { LedgerFork } from '../../../engine/ledger/ledger.ts';
import { type Entry, followEntries, inRuleOrder, type Match, withIds } from '../../../engine/rules/match/match.ts';
import type { RuleLimit, RuleTree } from '../../../engine/rules/match/tree.ts';
import type { SharedChild } from '../answers/counters.ts';
import { currentReserve, windowName } from './counter-state.ts';

/** A child of a shared limit, and the debit that reads its state. */
export interface NamedChild {
  readonly entry: Entry;
  readonly limit: SharedLimit;
  readonly debit: Debit;
  /** The descriptor's own child, or one above it. */
  readonly isOwn: boolean;
}

/** Maximum number of children of a level that are read, in the order of the file. */
const MAX_CHILDREN = 200;

/**
 * The children that rules name by value on each level of a shared limit down to that of the descriptor, and the
 * descriptor's own. Of a descriptor of the limit itself: those on the first level. None if the limit is not shared.
 */
export function namedChildren(
  match: Match | undefined,
  { domain, entries: given }: { readonly domain: string; readonly entries: readonly Entry[] },
  tree: RuleTree,
  counters: Decider['counters'],
): readonly NamedChild[] {
  const shared = match?.kind === 'limited' ? match.limits[0]?.limit : undefined;
  if (match?.kind !== 'limited' || !shared || !isShared(shared)) return [];
  const of = tree.domains.get(domain);
  const root = of?.root;
  const isWhole = (sent: readonly Entry[]): boolean => followEntries(sent, root).length === sent.length;
  const ordered = of ? inRuleOrder(of, given) : given;
  const entries = [ordered, ...withIds(tree, domain, ordered)].find(isWhole) ?? given;
  const top = match.rule.sharedBelow ?? entries.length;
  const counter = counters(shared, domain, match.entries);
  const nodes = followEntries(entries, root);
  const childAt = (path: readonly Entry[], limit: RuleLimit | undefined, isOwn: boolean): NamedChild[] => {
    const entry = path.at(-1);
    if (!entry || !limit || !isShared(limit.limit) || limit.limit.path.length !== path.length) return [];
    const debit = sharedBy(createDebit(counter, limit, 0, false), claimShare(limit.limit, path));
    return [{ entry, limit: limit.limit, debit, isOwn }];
  };
  const onLevel = (depth: number): readonly NamedChild[] => {
    const [own, above] = [entries[depth], entries.slice(top, depth)];
    const key = own?.key ?? shared.by ?? '';
    const named = [...(nodes[depth - 1]?.children?.byKey.get(key)?.byValue ?? [])].slice(0, MAX_CHILDREN);
    const others = named.flatMap(([value, { rule }]) =>
      value === own?.value ? [] : childAt([...above, { key, value }], rule?.limits[0], false),
    );
    const limit = depth === entries.length - 1 ? match.limits[0] : nodes[depth]?.rule?.limits[0];
    return own ? [...childAt([...above, own], limit, true), ...others] : others;
  };
  const depths = Array.from({ length: Math.max(entries.length - top, 1) }, (_, at) => top + at);
  return depths.reverse().flatMap(onLevel);
}

/** What the children have used and lend, those of the descriptor's own level first. */
export function readChildren(
  children: readonly NamedChild[],
  fork: Pick<LedgerFork, 'readState' | 'nowMs'>,
): readonly SharedChild[] {
  return children.flatMap(({ entry: { key, value }, limit, debit, isOwn }): SharedChild | [] => {
    const [state, nowMs] = [fork.readState(debit), fork.nowMs(debit)];
    const { share } = describeCounter(limit, state, nowMs, debit);
    const numbers = limit.path.at(-1);
    if (!share || !numbers) return [];
    const { weight, ceiling } = numbers;
    const { used, borrowed, unspent } = share;
    const reserve = currentReserve(limit, share);
    const isActive =
      algorithmFor(limit).isActiveChild?.(state, nowMs, debit.slotShare?.children.at(-1) ?? 0, limit) ?? false;
    return {
      key,
      value,
      used,
      borrowed,
      unspent,
      reserve,
      weight,
      lends: lentHits(limit, share, isActive),
      ...(limitsInFlight(limit) ? { slots: true as const } : { window: windowName(limit) }),
      ...(ceiling > 0 && { ceiling }),
      ...(!isActive && used === 0 && { idle: true as const }),
      ...(isOwn && { own: true as const }),
    };
  });
}

/** What a child leaves to others of its reservation. An active child leaves no slots. */
function lentHits(limit: SharedLimit, { used, borrowed, unspent }: ShareReport, isActive: boolean): number {
  if (limitsInFlight(limit)) return isActive ? 0 : unspent;
  const fromReserve = Math.floor((unspent * limit.requestsPerUnit) / nominalCapacity(limit));
  return borrowed > 0 ? 0 : Math.max(Math.min(fromReserve, (limit.path.at(-1)?.reserve ?? 0) - used), 0);
}
