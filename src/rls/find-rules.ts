import { RequestWork } from '../request-work.ts';
import { explain } from '../rules/explain.ts';
import { NearestTexts } from '../rules/nearest-of.ts';
import type { RuleTree } from '../rules/tree.ts';
import { decodeRequest } from './codec.ts';
import { FIND_COMPARISONS } from './cost.ts';
import type { FindResponse, FoundRule } from './proto.ts';
import type { WireRequest } from './wire.ts';

/**
 * Finds the rule that each descriptor of a request matches, for `weir.v1.Rules/Find`.
 *
 * @param onWork  see `RequestWork`
 * @throws TooCostly
 */
export function findRules(rules: RuleTree, wire: WireRequest, onWork: (units: number) => void): FindResponse {
  const { domain, descriptors } = decodeRequest(wire);
  const nearest = new NearestTexts(FIND_COMPARISONS, new RequestWork(onWork));
  const bounds = { nearest, work: new RequestWork(onWork) };
  const found = descriptors.map((descriptor): FoundRule => {
    const { rule, text } = explain(rules, domain, descriptor, bounds);
    return {
      rule: rule?.path ?? '',
      file: rule?.place?.file ?? '',
      line: rule?.place?.line ?? 0,
      explanation: text,
    };
  });
  return { found };
}
