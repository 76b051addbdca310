import { MAX_DESCRIPTORS } from '../../engine/decide/plan.ts';
import type { WireStruct } from '../../protobuf/struct.ts';

/** The Rate Limit Service's messages, decoded: fields have their .proto names, enums are numbers. */

export interface WireRequest {
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
  readonly hits_addend: number;
  /** Why the request was not read to its end: it exceeds `maximumRequest`. */
  readonly problem?: string;
}
export interface WireDescriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  readonly limit: WireRequestLimit | null;
  readonly hits_addend: { readonly value: number } | null;
  readonly is_negative_hits: boolean;
}
export interface WireRequestLimit {
  readonly requests_per_unit: number;
  readonly unit: number;
  readonly unit_multiplier: { readonly value: number } | null;
}

export interface WireResponse {
  readonly overall_code: number;
  readonly statuses: readonly WireStatus[];
  readonly response_headers_to_add: readonly WireHeader[];
  /** The body of the response to a refused request. */
  readonly raw_body?: Buffer;
  readonly dynamic_metadata?: WireStruct | null | undefined;
}
/** A google.protobuf.Duration. */
export interface WireDuration {
  readonly seconds: number;
  readonly nanos: number;
}

/** A response header for the client. */
export interface WireHeader {
  readonly key: string;
  readonly value: string;
}
export interface WireStatus {
  readonly code: number;
  readonly current_limit?: WireLimit;
  readonly limit_remaining: number;
  readonly duration_until_reset?: WireDuration;
}
export interface WireLimit {
  readonly name: string;
  readonly requests_per_unit: number;
  readonly unit: number;
  readonly unit_multiplier?: { readonly value: number };
}

/** RateLimitResponse.Code */
export const codeNumbers = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const;

/** envoy.type.v3.RateLimitUnit, of a request limit: it has no name for week, only the number 7. */
export const requestUnitNumbers = { UNKNOWN: 0, SECOND: 1, MINUTE: 2, HOUR: 3, DAY: 4, MONTH: 5, YEAR: 6 } as const;

/** RateLimitResponse.RateLimit.Unit */
export const unitNumbers = { ...requestUnitNumbers, WEEK: 7 } as const;

/** The name of an enum value; undefined if it has none. */
export const findName = <N extends string>(names: Readonly<Record<N, number>>, number: number): N | undefined =>
  (Object.keys(names) as N[]).find((name) => names[name] === number); // it has no other keys

/** The largest value of a uint32 field. */
export const MAX_UINT32 = 0xffff_ffff;

/** Limits of a request, which is refused beyond them; values are cut over gRPC. Readers stop at the first exceeded. */
export const maximumRequest = { descriptors: MAX_DESCRIPTORS, entries: 64, textLength: 16_384 } as const;

/** Metadata key with the name of the caller, a proxy. */
export const PROXY_HEADER = 'x-weir-proxy';
