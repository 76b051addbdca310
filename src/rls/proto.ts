import { fileURLToPath } from 'node:url';
import { loadSync, type MethodDefinition, type PackageDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { packageRoot } from '../package-root.ts';
import { withLinkedDescriptors } from './descriptors.ts';
import type { WireRequest, WireResponse } from './wire.ts';

const options = {
  keepCase: true,
  longs: Number, // beyond 2^53 inexact; the codec stops counting there
  defaults: true, // with absent messages as null: what wire.ts says
};

const includeDirs = [fileURLToPath(new URL('proto/', packageRoot))];
const packageDefinition = loadSync('envoy/service/ratelimit/v3/rls.proto', { ...options, includeDirs });
const rulesDefinition = loadSync('weir/v1/rules.proto', { ...options, includeDirs });
const healthDefinition = loadSync('grpc/health/v1/health.proto', { ...options, includeDirs });

export const rateLimitService = packageDefinition['envoy.service.ratelimit.v3.RateLimitService'] as ServiceDefinition; // a service in the file

/** `RateLimitService/ShouldRateLimit`: its path, encoder and decoder. */
export const shouldRateLimit = rateLimitService.ShouldRateLimit as MethodDefinition<WireRequest, WireResponse>; // by the file's own types

export const rulesService = rulesDefinition['weir.v1.Rules'] as ServiceDefinition; // a service in the file
/** Which rules descriptors meet: `Rules/Find`. */
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

/** Everything that the server speaks, for the reflection service. */
export const describedServices: PackageDefinition = withLinkedDescriptors({
  ...packageDefinition,
  ...rulesDefinition,
  ...healthDefinition,
});
