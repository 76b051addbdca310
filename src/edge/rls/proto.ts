import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import type { WireRequest, WireResponse } from '../../engine/wire/wire.ts';
import { loadProtos } from '../../protobuf/load.ts';
import type { WireBatchRequest, WireBatchResponse } from './batch.ts';

const rlsFile = 'envoy/service/ratelimit/v3/rls.proto';
const weirFiles = ['weir/v1/rules.proto', 'weir/v1/holds.proto', 'weir/v1/batch.proto'];
const packageDefinition = loadProtos([rlsFile], 'numbers');
const kuadrantFile = 'kuadrant/service/ratelimit/v1/ratelimit.proto';
const kuadrantDefinition = loadProtos([kuadrantFile], 'numbers');
const weirDefinition = loadProtos(weirFiles, 'numbers');

// a service in the file
export const rateLimitService = packageDefinition['envoy.service.ratelimit.v3.RateLimitService'] as ServiceDefinition;

/** `RateLimitService/ShouldRateLimit`: its path, encoder and decoder. */
// by the file's own types
export const shouldRateLimit = rateLimitService.ShouldRateLimit as MethodDefinition<WireRequest, WireResponse>;

export const rulesService = weirDefinition['weir.v1.Rules'] as ServiceDefinition; // a service in the file
export const findRules = rulesService.Find as MethodDefinition<WireRequest, FindResponse>; // by the file's own types

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

export const holdsService = weirDefinition['weir.v1.Holds'] as ServiceDefinition; // a service in the file

const batchService = weirDefinition['weir.v1.Batch'] as ServiceDefinition; // a service in the file
/** `Batch/Decide`: its path, encoder and decoder. */
// by the file's own types
export const decideBatch = batchService.Decide as MethodDefinition<WireBatchRequest, WireBatchResponse>;

export const kuadrantService = kuadrantDefinition[
  'kuadrant.service.ratelimit.v1.RateLimitService'
] as ServiceDefinition; // a service in the file
