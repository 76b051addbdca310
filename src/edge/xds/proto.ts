import type { MessageTypeDefinition, MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';
import type { WireStruct } from '../../protobuf/struct.ts';

/** A control plane's messages, decoded: fields have their .proto names. */

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

/** ratelimit.config.ratelimit.v3.RateLimitConfig */
export interface WireConfig {
  readonly name: string;
  readonly domain: string;
  readonly descriptors: readonly WireConfigDescriptor[];
}
/** ratelimit.config.ratelimit.v3.RateLimitDescriptor */
export interface WireConfigDescriptor {
  readonly key: string;
  readonly value: string;
  readonly rate_limit: WireConfigPolicy | null;
  readonly descriptors: readonly WireConfigDescriptor[];
  readonly shadow_mode: boolean;
  readonly detailed_metric: boolean;
  readonly quota_mode: boolean;
  readonly metadata: WireStruct | null;
}
/** ratelimit.config.ratelimit.v3.RateLimitPolicy */
export interface WireConfigPolicy {
  /** A name of RateLimitUnit; an unknown value as a number. */
  readonly unit: string | number;
  readonly requests_per_unit: number;
  readonly unlimited: boolean;
  readonly name: string;
  readonly replaces: readonly { readonly name: string }[];
}

const files = ['envoy/service/discovery/v3/ads.proto', 'ratelimit/config/ratelimit/v3/rls_conf.proto'];
const definitions = loadProtos(files, 'names');

export const discoveryService = definitions[
  'envoy.service.discovery.v3.AggregatedDiscoveryService'
] as ServiceDefinition; // a service in the file

/** `AggregatedDiscoveryService/StreamAggregatedResources`: its path, encoder and decoder. */
export const streamAggregatedResources = discoveryService.StreamAggregatedResources as MethodDefinition<
  WireDiscoveryRequest,
  WireDiscoveryResponse
>; // by the file's own types

/** The full name of the message that holds one domain's rules. */
export const CONFIG_TYPE = 'ratelimit.config.ratelimit.v3.RateLimitConfig';

// a message in the file
export const configMessage = definitions[CONFIG_TYPE] as MessageTypeDefinition<WireConfig, WireConfig>;

/** CONFIG_TYPE as a type URL of google.protobuf.Any. */
export const CONFIG_TYPE_URL = `type.googleapis.com/${CONFIG_TYPE}`;
