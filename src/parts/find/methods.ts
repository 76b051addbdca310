import { NearestTexts } from '../../base/nearest.ts';
import { RequestWork } from '../../base/request-work.ts';
import { hostedMethods } from '../../edge/grpc/proto-services.ts';
import type { Overload } from '../../edge/overload/overload.ts';
import { hostedCost } from '../../edge/rls/cost.ts';
import { type Outcome, toStatus } from '../../edge/rls/service.ts';
import { decodeRequest } from '../../edge/wire/codec.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { type Cost, QUESTION_UNITS } from '../../h2/bounds/call-queue.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { type FindResponse, rulesService } from '../lab/rules-proto.ts';
import { explain } from '../lab/stop.ts';

/** Maximum descriptors in a request for rules, since the result for each takes up to a kilobyte. */
const MAX_DESCRIPTORS = 64;

/** `weir.v1.Rules`. */
export const rulesMethods = (rules: () => RuleTree | undefined, overload: Overload): readonly Method[] =>
  hostedMethods(
    rulesService,
    { find: async (request: WireRequest) => outcomeOfFind(rules(), request, overload.queue.spend) },
    overload,
    { measureCost: findCost, estimate: QUESTION_UNITS },
  );

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
function findCost(message: unknown, octets: number): Cost {
  const { bytes, units } = hostedCost(message, octets);
  return { bytes, units: units + MAX_COMPARISONS / COMPARISONS_PER_UNIT };
}

function outcomeOfFind(
  tree: RuleTree | undefined,
  request: WireRequest,
  onWork: (units: number) => void,
): Outcome<FindResponse> {
  const { length } = request.descriptors;
  if (length > MAX_DESCRIPTORS) {
    const details = `at most ${MAX_DESCRIPTORS} descriptors, got ${length}`;
    return { error: { code: status.INVALID_ARGUMENT, details } };
  }
  if (!tree) return { error: { code: status.UNAVAILABLE, details: 'no rate limit configuration loaded' } };
  try {
    return { response: findRules(tree, request, onWork) };
  } catch (cause) {
    return { error: toStatus(cause) };
  }
}
