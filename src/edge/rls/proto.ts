import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';
import type { WireRequest, WireResponse } from '../wire/wire.ts';
import type { WireBatchRequest, WireBatchResponse } from './batch.ts';

const definitions = loadProtos(['envoy/service/ratelimit/v3/rls.proto', 'weir/v1/batch.proto'], 'numbers');
const service = (name: string): ServiceDefinition => definitions[name] as ServiceDefinition; // a service in the files

export const rateLimitService = service('envoy.service.ratelimit.v3.RateLimitService');

// the paths, encoders and decoders of methods, by the files' own types
export const shouldRateLimit = rateLimitService.ShouldRateLimit as MethodDefinition<WireRequest, WireResponse>;
export const decideBatch = service('weir.v1.Batch').Decide as MethodDefinition<WireBatchRequest, WireBatchResponse>;
