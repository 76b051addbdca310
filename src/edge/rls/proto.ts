import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import type { WireDescriptor, WireRequest, WireResponse } from '../../engine/wire/wire.ts';
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
/** `Rules/Find`: the rules that descriptors match. */
export const findRules = rulesService.Find as MethodDefinition<WireRequest, FindResponse>; // by the file's own types

/** The messages of `proto/weir/v1/rules.proto`. */
export interface FindResponse {
  readonly found: readonly FoundRule[];
}
export interface FoundRule {
  readonly rule: string;
  readonly file: string;
  readonly line: number;
  readonly explanation: string;
}

export const holdsService = weirDefinition['weir.v1.Holds'] as ServiceDefinition; // a service in the file

export const batchService = weirDefinition['weir.v1.Batch'] as ServiceDefinition; // a service in the file
/** `Batch/Decide`: its path, encoder and decoder. */
// by the file's own types
export const decideBatch = batchService.Decide as MethodDefinition<WireBatchRequest, WireBatchResponse>;

/** A duration on the wire. */
export interface WireDuration {
  readonly seconds: number;
  readonly nanos: number;
}

/** The messages of `proto/weir/v1/holds.proto`. */
export interface HoldRequest {
  readonly request: WireRequest | null;
}
export interface AcquireRequest extends HoldRequest {
  readonly max_delay: WireDuration | null;
}
export interface HoldResponse {
  readonly held: boolean;
  readonly ttl: WireDuration;
  readonly retry_after: WireDuration | null;
}

export interface ReserveResponse {
  readonly reserved: boolean;
  readonly hits: number;
  readonly ttl: WireDuration;
  readonly retry_after: WireDuration | null;
}
export interface CommitResponse {
  readonly outcome: number;
  readonly charged: number;
  readonly overrun: number;
}

export const kuadrantService = kuadrantDefinition[
  'kuadrant.service.ratelimit.v1.RateLimitService'
] as ServiceDefinition; // a service in the file

/** The messages of `proto/kuadrant/service/ratelimit/v1/ratelimit.proto`. Optional: fields that Weir does not read. */
export interface KuadrantReserveRequest {
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
  readonly amount: number;
  readonly ttl?: WireDuration | null;
}
export interface KuadrantReserveResponse {
  readonly code: number;
  readonly reservation_id: string;
}
export interface KuadrantCommitRequest {
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
  readonly reservation_id: string;
  readonly actual_amount: number;
}
export interface KuadrantCommitResponse {
  readonly reservation_released: boolean;
}
