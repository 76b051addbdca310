import { RequestWork } from '../../base/request-work.ts';
import { explain } from '../../engine/rules/match/explain.ts';
import { NearestTexts } from '../../engine/rules/match/nearest-of.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { decodeRequest } from '../../engine/wire/codec.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { FIND_COMPARISONS } from './cost.ts';
import type { FindResponse, FoundRule } from './proto.ts';

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
