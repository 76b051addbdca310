import { fileURLToPath } from 'node:url';
import { loadSync, type MethodDefinition, type PackageDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import type { WireRequest, WireResponse } from './wire.ts';

/** What our .proto files define. */
export const packageDefinition: PackageDefinition = loadSync('envoy/service/ratelimit/v3/rls.proto', {
  includeDirs: [fileURLToPath(new URL('../../proto/', import.meta.url))],
  keepCase: true,
  longs: Number, // beyond 2^53 inexact; the codec stops counting there
  defaults: true, // with absent messages as null: what wire.ts says
});

export const rateLimitService = packageDefinition['envoy.service.ratelimit.v3.RateLimitService'] as ServiceDefinition; // a service in the file

/** `RateLimitService/ShouldRateLimit`: its path, encoder and decoder. */
export const shouldRateLimit = rateLimitService.ShouldRateLimit as MethodDefinition<WireRequest, WireResponse>; // by the file's own types
