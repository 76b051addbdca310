import type { RequestWork } from '../../base/request-work.ts';
import { type Descriptor, type Entry, findNode, inRuleOrder, match } from '../rules/match/match.ts';
import type { RequiredKeys } from '../rules/match/required-keys.ts';
import type { Domain, Level, RuleTree } from '../rules/match/tree.ts';
import type { Requirement } from '../rules/read/node-source.ts';
import { appended } from './appended.ts';

/** A descriptor, and the hits that it counts. */
interface Counting extends Descriptor {
  readonly hits: number;
}

/** What a request lacks, and how it is counted instead. */
export interface Unmet {
  readonly missing: readonly MissingKeys[];
  /**
   * The descriptors that count it: those of the request, in which descriptors of the requirements take the place of
   * some without a rule, and follow if there are too few of these.
   */
  readonly descriptors: readonly Counting[];
  /** The index of the descriptor that refuses the request, so that no other one is counted; undefined if none does. */
  readonly onlyAt: number | undefined;
}

/** A requirement that a request does not meet, and the descriptor that stands for the request. */
interface MissingKeys {
  readonly requirement: Requirement;
  readonly entries: readonly Entry[];
}

/**
 * Finds the requirements that a request does not meet. Undefined if it meets all, only gives hits back, or is invalid.
 *
 * @throws TooCostly
 */
export function findUnmet(
  { domain: name, descriptors }: { readonly domain: string; readonly descriptors: readonly Counting[] },
  rules: RuleTree,
  work?: RequestWork,
): Unmet | undefined {
  const domain = rules.domains.get(name);
  if (!domain?.requirements) return undefined;
  if (domain.requirements.length === 1 && domain.root.required?.areIn(descriptors)) return undefined; // the common case
  const missing = findMissing(domain, descriptors, rules, work);
  if (!missing || descriptors.every(({ hits }) => hits < 0) || descriptors.some(isInvalid)) return undefined;
  const counted = [...descriptors];
  const hits = descriptors.reduce((most, one) => Math.max(most, one.hits), 0);
  const findFree = (): number => counted.findIndex((one) => match(rules, name, one, { work }).kind === 'no_rule');
  const refusing = missing.find(({ requirement }) => requirement.otherwise === 'refuse');
  if (refusing) {
    const onlyAt = Math.max(findFree(), 0);
    counted[onlyAt] = { entries: refusing.entries, requestLimit: undefined, hits: Math.max(hits, 1) }; // no peek
    return { missing, descriptors: counted, onlyAt };
  }
  for (const { requirement, entries } of missing) {
    if (requirement.otherwise === 'allow') continue;
    const at = findFree();
    counted[at < 0 ? counted.length : at] = { entries, requestLimit: undefined, hits };
  }
  return { missing, descriptors: counted, onlyAt: undefined };
}

const isInvalid = ({ requestLimit }: Counting): boolean => requestLimit !== undefined && 'problem' in requestLimit;

function findMissing(
  domain: Domain,
  descriptors: readonly Counting[],
  { isOpaque }: RuleTree,
  work: RequestWork | undefined,
): readonly MissingKeys[] | undefined {
  const { root, requirements = [] } = domain;
  let missing: MissingKeys[] | undefined;
  const add = (required: RequiredKeys, above: readonly Entry[]): void => {
    const { requirement } = required;
    if (missing?.some((one) => one.requirement === requirement) || required.areIn(descriptors)) return;
    missing = appended(missing, { requirement, entries: required.counterEntries(above, descriptors) });
  };
  if (root.required) add(root.required, []);
  if (requirements.length === 1 && root.required) return missing;
  for (const { entries: sent } of descriptors) {
    const entries = inRuleOrder(domain, sent, work, isOpaque);
    let level: Level | undefined = root;
    for (let depth = 0; level && depth < entries.length; depth++) {
      level = findNode(level, entries[depth] as Entry, work, isOpaque)?.children; // in range
      if (level?.required) add(level.required, entries.slice(0, depth + 1));
    }
  }
  return missing;
}
