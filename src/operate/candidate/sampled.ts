import type { Answer, Decider } from '../../engine/decide/decide.ts';
import { type Entry, match } from '../../engine/rules/match/match.ts';
import type { Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { sampledOf } from '../../lab/record/sampling.ts';

/** The descriptors of a request that are tried, by index. */
interface TriedPlaces {
  /** Descriptors with sampled counters, which are included in the figures. */
  readonly sampled: readonly number[];
  /** The sampled descriptors are decided without the others. */
  readonly areAlone: boolean;
}

/** Undefined: none is tried. @param sample  below 1 */
export function triedPlaces(
  wire: WireRequest,
  live: Answer,
  rules: RuleTree,
  { sample, decider }: { readonly sample: number; readonly decider: Pick<Decider, 'spend' | 'quotaMode'> },
): TriedPlaces | undefined {
  const sampled = sampledOf(wire, rules, sample);
  if (sampled.length === 0) return undefined;
  if (sampled.length === wire.descriptors.length) return { sampled, areAlone: true };
  return { sampled, areAlone: areIndependent(wire, live, rules, decider) };
}

/** Whether the decision on each descriptor is independent of the others. */
export function areIndependent(
  request: AnyRequest,
  live: Answer,
  rules: RuleTree,
  decider: Pick<Decider, 'spend' | 'quotaMode'>,
): boolean {
  const isEach = (rules.domains.get(request.domain)?.spend ?? decider.spend) === 'each';
  return isEach && !decider.quotaMode && !liveRules(live).some(hasQuota) && !hasTies(request, rules);
}

/** A request as it was sent, or decoded. */
export interface AnyRequest {
  readonly domain: string;
  readonly descriptors: readonly { readonly entries: readonly Entry[] }[];
}

/** Whether the decision on one descriptor depends on the rules that others match. */
const hasTies = ({ domain, descriptors }: AnyRequest, rules: RuleTree): boolean =>
  descriptors.some(({ entries }) => {
    const found = match(rules, domain, { entries, requestLimit: undefined });
    return 'rule' in found && (found.rule.replaces.length > 0 || hasQuota(found.rule));
  });

const hasQuota = ({ limits }: Rule): boolean => limits.some(({ policy }) => policy.quota);

const liveRules = ({ verdicts }: Answer): readonly Rule[] =>
  verdicts.flatMap((verdict) => (verdict.kind === 'limited' ? verdict.rule : []));
