import { type Decider, InvalidRequest, matchesOf, type RateLimitRequest, RulesNotLoaded } from '../decide/decide.ts';
import { holderOf } from '../ledger/holder.ts';
import type { Match } from '../rules/match/match.ts';

/** A descriptor whose id may hold something. */
interface HeldDescriptor {
  readonly found: Extract<Match, { kind: 'limited' }>;
  readonly hits: number;
  /** See `holderOf`. */
  readonly holder: number;
}

/**
 * The descriptors of a request that have an id and match a limit.
 *
 * @throws InvalidRequest  an id is empty, or a descriptor has fewer hits than `minHits`
 * @throws RulesNotLoaded
 */
export function heldDescriptors(
  request: RateLimitRequest,
  decider: Pick<Decider, 'rules' | 'overrides' | 'clock' | 'onWork'>,
  minHits: number,
): readonly HeldDescriptor[] {
  const rules = decider.rules();
  if (!rules) throw new RulesNotLoaded('no rate limit configuration loaded');
  return matchesOf(request, rules, decider).flatMap((found, at) => {
    if (found.kind !== 'limited' || found.id === undefined) return [];
    const hits = request.descriptors[at]?.hits ?? 1;
    if (found.id === '') throw new InvalidRequest(`descriptors[${at}]: the id must not be empty`);
    if (hits < minHits) throw new InvalidRequest(`descriptors[${at}]: hits must be at least ${minHits}, got ${hits}`);
    return { found, hits, holder: holderOf(found.id) };
  });
}
