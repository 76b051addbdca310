import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';
import type { WireStruct } from '../../protobuf/struct.ts';

/** A control plane's decoded messages, whose fields have their .proto names. */

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
interface WireAny {
  readonly type_url: string;
  readonly value: Uint8Array;
}

const definitions = loadProtos(['envoy/service/discovery/v3/ads.proto'], 'names');

const discoveryService = definitions['envoy.service.discovery.v3.AggregatedDiscoveryService'] as ServiceDefinition; // a service in the file

/** `AggregatedDiscoveryService/StreamAggregatedResources`: its path, encoder and decoder. */
export const streamAggregatedResources = discoveryService.StreamAggregatedResources as MethodDefinition<
  WireDiscoveryRequest,
  WireDiscoveryResponse
>; // by the file's own types

/** Type URL, in google.protobuf.Any, of the message that holds one domain's rules. */
export const CONFIG_TYPE_URL = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';
