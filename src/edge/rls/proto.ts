import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';
import type { WireRequest, WireResponse } from '../wire/wire.ts';
import type { WireBatchRequest, WireBatchResponse } from './batch.ts';

const definitions = loadProtos(
  ['envoy/service/ratelimit/v3/rls.proto', 'weir/v1/rules.proto', 'weir/v1/batch.proto'],
  'numbers',
);
const service = (name: string): ServiceDefinition => definitions[name] as ServiceDefinition; // a service in the files

export const rateLimitService = service('envoy.service.ratelimit.v3.RateLimitService');
export const rulesService = service('weir.v1.Rules');

// the paths, encoders and decoders of methods, by the files' own types
export const shouldRateLimit = rateLimitService.ShouldRateLimit as MethodDefinition<WireRequest, WireResponse>;
export const findRules = rulesService.Find as MethodDefinition<WireRequest, FindResponse>;
export const decideBatch = service('weir.v1.Batch').Decide as MethodDefinition<WireBatchRequest, WireBatchResponse>;

/** The answer of `Find`, as in `proto/weir/v1/rules.proto`. */
export interface FindResponse {
  /** One for each descriptor. */
  readonly found: readonly {
    readonly rule: string;
    readonly file: string;
    readonly line: number;
    readonly explanation: string;
  }[];
}
