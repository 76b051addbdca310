import { NearestTexts } from '../../base/nearest.ts';
import { RequestWork } from '../../base/request-work.ts';
import { explain } from '../../engine/rules/match/stop.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { decodeRequest } from '../../engine/wire/codec.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import type { Cost } from '../../h2/bounds/call-queue.ts';
import { hostedCost } from './cost.ts';
import type { FindResponse } from './proto.ts';

/** Maximum number of texts that a call compares, since any client that may request decisions may call it. */
const MAX_COMPARISONS = 2_000;

/** Number of text comparisons per unit of work. */
const COMPARISONS_PER_UNIT = 8;

/**
 * Finds the rule that each descriptor of a request matches, for `weir.v1.Rules/Find`.
 *
 * @param onWork  see `RequestWork`
 * @throws TooCostly
 */
export function findRules(rules: RuleTree, wire: WireRequest, onWork: (units: number) => void): FindResponse {
  const { domain, descriptors } = decodeRequest(wire);
  const nearest = new NearestTexts(MAX_COMPARISONS, new RequestWork(onWork));
  const bounds = { nearest, work: new RequestWork(onWork) };
  const found = descriptors.map((descriptor) => {
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

/** Cost of a call of which no descriptor matches a rule. */
export function findCost(message: unknown, octets: number): Cost {
  const { bytes, units } = hostedCost(message, octets);
  return { bytes, units: units + MAX_COMPARISONS / COMPARISONS_PER_UNIT };
}
