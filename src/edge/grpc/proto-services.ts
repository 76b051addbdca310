import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { NearestTexts } from '../../base/nearest.ts';
import { RequestWork } from '../../base/request-work.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Cost } from '../../h2/bounds/call-queue.ts';
import { QUESTION_UNITS } from '../../h2/bounds/call-queue.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method, MethodTurns, OpenCall } from '../../h2/grpc/method.ts';
import { explain } from '../listing/stop.ts';
import type { Overload } from '../overload/overload.ts';
import { hostedCost } from '../rls/cost.ts';
import { type FindResponse, rulesService } from '../rls/proto.ts';
import { type Outcome, toStatus } from '../rls/service.ts';
import { decodeRequest } from '../wire/codec.ts';
import type { WireRequest } from '../wire/wire.ts';

/** Services whose messages are read and written by `@grpc/proto-loader`, and whose calls take turns with decisions. */

/** Maximum descriptors in a request for rules, since the result for each takes up to a kilobyte. */
const MAX_DESCRIPTORS = 64;

/** `weir.v1.Rules`. */
export function rulesMethods(rules: () => RuleTree | undefined, overload: Overload): readonly Method[] {
  const method = unaryMethods(rulesService, { overload, measureCost: findCost, estimate: QUESTION_UNITS });
  return [
    method<WireRequest, FindResponse>('Find', (request, call) => {
      const tree = rules();
      const { length } = request.descriptors;
      if (length > MAX_DESCRIPTORS)
        call.fail(status.INVALID_ARGUMENT, `at most ${MAX_DESCRIPTORS} descriptors, got ${length}`);
      else if (!tree) call.fail(status.UNAVAILABLE, 'no rate limit configuration loaded');
      else finish(call, outcomeOfFind(tree, request, overload.queue.spend));
    }),
  ];
}

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

function outcomeOfFind(tree: RuleTree, request: WireRequest, onWork: (units: number) => void): Outcome<FindResponse> {
  try {
    return { response: findRules(tree, request, onWork) };
  } catch (cause) {
    return { error: toStatus(cause) };
  }
}

type Hosted = Readonly<Record<string, (request: never, caller: OpenCall) => Promise<Outcome<object>>>>;

/** Creates the unary methods of a service, whose outcomes are promised by handlers with the names of the methods. */
export function hostedMethods(service: ServiceDefinition, handlers: Hosted, overload: Overload): readonly Method[] {
  const method = unaryMethods(service, { overload, measureCost: hostedCost });
  return Object.entries(service).map(([name, { originalName = name }]) =>
    method<never, object>(name, (request, call) => {
      void handlers[originalName]?.(request, call).then((outcome) => finish(call, outcome));
    }),
  );
}

const unaryMethods =
  (service: ServiceDefinition, turns: MethodTurns) =>
  <Q, R>(name: string, handle: (request: Q, call: OpenCall<R>) => void): Method<Q, R> => {
    const { path, requestDeserialize, responseSerialize } = service[name] as unknown as MethodDefinition<Q, R>; // by the file's own types
    return { kind: 'unary', path, decode: requestDeserialize, encode: responseSerialize, turns, handle };
  };

function finish<R>(call: OpenCall<R>, outcome: Outcome<R>): void {
  if ('error' in outcome) return call.fail(outcome.error.code, outcome.error.details);
  call.send(outcome.response);
  call.end();
}
