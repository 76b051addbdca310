import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import type { Method, MethodTurns, OpenCall } from '../../h2/grpc/method.ts';
import { hostedCost } from '../rls/cost.ts';
import type { Outcome } from '../rls/service.ts';

/** Services whose messages are read and written by `@grpc/proto-loader`, and whose calls take turns with decisions. */

type Hosted = Readonly<Record<string, (request: never, caller: OpenCall) => Promise<Outcome<object>>>>;

/** Creates the unary methods of a service, whose outcomes are promised by handlers with the names of the methods. */
export function hostedMethods(
  service: ServiceDefinition,
  handlers: Hosted,
  overload: MethodTurns['overload'],
  bounds: Omit<MethodTurns, 'overload'> = { measureCost: hostedCost },
): readonly Method[] {
  return Object.entries(service).map(([name, { originalName = name }]): Method<never, object> => {
    const { path, requestDeserialize, responseSerialize } = service[name] as unknown as MethodDefinition<never, object>; // by the file's own types
    return {
      ...{ kind: 'unary', path, decode: requestDeserialize, encode: responseSerialize },
      turns: { overload, ...bounds },
      handle: (request, call) => void handlers[originalName]?.(request, call).then((outcome) => finish(call, outcome)),
    };
  });
}

function finish(call: OpenCall<object>, outcome: Outcome<object>): void {
  if ('error' in outcome) return call.fail(outcome.error.code, outcome.error.details);
  call.send(outcome.response);
  call.end();
}
