import { fileURLToPath } from 'node:url';
import {
  loadSync,
  type MessageTypeDefinition,
  type MethodDefinition,
  type ServiceDefinition,
} from '@grpc/proto-loader';
import { packageRoot } from '../package-root.ts';
import type { WireStruct } from '../rls/struct.ts';

/** The messages of a control plane as they are decoded and encoded: fields under their .proto names, enums as numbers. */

export interface WireDiscoveryRequest {
  readonly version_info: string;
  readonly node: { readonly id: string; readonly metadata: WireStruct | null } | null;
  readonly resource_names: readonly string[];
  readonly type_url: string;
  readonly response_nonce: string;
  readonly error_detail: { readonly code: number; readonly message: string } | null;
}
export interface WireDiscoveryResponse {
  readonly version_info: string;
  readonly resources: readonly WireAny[];
  readonly type_url: string;
  readonly nonce: string;
}
/** google.protobuf.Any */
export interface WireAny {
  readonly type_url: string;
  readonly value: Uint8Array;
}

export interface WireConfig {
  readonly name: string;
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
}
export interface WireDescriptor {
  readonly key: string;
  readonly value: string;
  readonly rate_limit: WirePolicy | null;
  readonly descriptors: readonly WireDescriptor[];
  readonly shadow_mode: boolean;
  readonly detailed_metric: boolean;
  readonly quota_mode: boolean;
  readonly metadata: WireStruct | null;
}
export interface WirePolicy {
  readonly unit: number;
  readonly requests_per_unit: number;
  readonly unlimited: boolean;
  readonly name: string;
  readonly replaces: readonly { readonly name: string }[];
}

const definitions = loadSync(['envoy/service/discovery/v3/ads.proto', 'ratelimit/config/ratelimit/v3/rls_conf.proto'], {
  keepCase: true,
  defaults: true, // with absent messages as null: what the types above say
  includeDirs: [fileURLToPath(new URL('proto/', packageRoot))],
});

export const discoveryService = definitions[
  'envoy.service.discovery.v3.AggregatedDiscoveryService'
] as ServiceDefinition; // a service in the file

/** `AggregatedDiscoveryService/StreamAggregatedResources`: its path, encoder and decoder. */
export const streamAggregatedResources = discoveryService.StreamAggregatedResources as MethodDefinition<
  WireDiscoveryRequest,
  WireDiscoveryResponse
>; // by the file's own types

/** The full name of the message that a domain's rules come in. */
export const CONFIG_TYPE = 'ratelimit.config.ratelimit.v3.RateLimitConfig';

export const configMessage = definitions[CONFIG_TYPE] as MessageTypeDefinition<WireConfig, WireConfig>; // a message in the file

/** What CONFIG_TYPE is called where any type may stand. */
export const CONFIG_TYPE_URL = `type.googleapis.com/${CONFIG_TYPE}`;
