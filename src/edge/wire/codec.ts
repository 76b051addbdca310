import type { JsonObject } from '../../base/json.ts';
import { epochWindow } from '../../engine/algorithms/fixed-window.ts';
import { type LimitLabel, MAX_COUNT, MAX_WINDOW_MS, type Unit, unitMs } from '../../engine/algorithms/limit.ts';
import { asInteger } from '../../engine/algorithms/money.ts';
import {
  type Answer,
  InvalidRequest,
  type RateLimitRequest,
  type RequestDescriptor,
  type Verdict,
} from '../../engine/decide/decide.ts';
import { shownRemaining, shownResetMs, toWholeSeconds } from '../../engine/decide/shown.ts';
import type { Limit } from '../../engine/holds/limits.ts';
import type { RequestLimit } from '../../engine/rules/match/match.ts';
import { toStruct, type WireStruct } from '../../protobuf/struct.ts';
import {
  codeNumbers,
  MAX_UINT32,
  unitNumbers,
  type WireDescriptor,
  type WireHeader,
  type WireLimit,
  type WireRequest,
  type WireRequestLimit,
  type WireResponse,
  type WireStatus,
} from './wire.ts';

/**
 * Converts a request to domain types.
 *
 * @throws InvalidRequest if its reader stopped because it exceeds `maximumRequest`
 */
export function decodeRequest({ domain, descriptors, hits_addend, problem }: WireRequest): RateLimitRequest {
  if (problem !== undefined) throw new InvalidRequest(problem);
  const hits = hits_addend === 0 ? 1 : hits_addend;
  return { domain, descriptors: descriptors.map((descriptor, at) => decodeDescriptor(descriptor, hits, at)) };
}

function decodeDescriptor(wire: WireDescriptor, requestHits: number, index: number): RequestDescriptor {
  const { entries, limit, hits_addend, is_negative_hits } = wire;
  const hits = Math.min(hits_addend?.value ?? requestHits, MAX_COUNT);
  return {
    entries,
    requestLimit: limit ? decodeRequestLimit(limit, `descriptors[${index}].limit`) : undefined,
    hits: is_negative_hits ? 0 - hits : hits,
  };
}

/** Converts a limit that a request itself brings. @param path  its place in the request */
export function decodeRequestLimit(
  { requests_per_unit: requestsPerUnit, unit: number, unit_multiplier }: WireRequestLimit,
  path: string,
): RequestLimit {
  const unit = unitByNumber.get(number);
  if (!unit) return { problem: `${path}.unit must be a unit from SECOND (1) to WEEK (7), got ${number}` };
  const unitMultiplier = unit_multiplier?.value ?? 1;
  const windowMs = unitMs[unit] * unitMultiplier;
  if (windowMs < 1 || windowMs > MAX_WINDOW_MS) {
    return {
      problem: `${path}.unit_multiplier must make a window of 1 unit to 100 years, got ${unitMultiplier} × ${unit}`,
    };
  }
  const limit = epochWindow({ requestsPerUnit, windowMs });
  return { limit: { limit, label: { name: '', unit, unitMultiplier }, policy: {} } };
}

const unitByNumber = new Map((Object.keys(unitMs) as Unit[]).map((unit) => [unitNumbers[unit] as number, unit]));

/**
 * Converts an answer to a wire message, with its response headers and dynamic metadata.
 *
 * @param detail  added to the metadata under `weir`, if any
 */
export function encodeAnswer(
  answer: Answer,
  responseHeaders: readonly WireHeader[],
  metadata: JsonObject | undefined,
  detail?: WireStruct,
): WireResponse {
  return {
    overall_code: codeNumbers[answer.overallCode],
    statuses: answer.verdicts.map(encodeStatus),
    response_headers_to_add: responseHeaders,
    dynamic_metadata: detail ? withDetail(metadata, detail) : metadata && toStruct(metadata),
  };
}

function withDetail(metadata: JsonObject | undefined, detail: WireStruct): WireStruct {
  if (!metadata) return { fields: { weir: { structValue: detail } } };
  const { fields } = toStruct(metadata);
  const weir = fields.weir && 'structValue' in fields.weir ? fields.weir.structValue.fields : {};
  return { fields: { ...fields, weir: { structValue: { fields: { ...weir, ...detail.fields } } } } };
}

function encodeStatus(verdict: Verdict): WireStatus {
  if (verdict.kind === 'unlimited') return { code: codeNumbers.OK, limit_remaining: MAX_UINT32 };
  if (verdict.kind !== 'limited') return { code: codeNumbers.OK, limit_remaining: 0 };
  const { code, limit, label } = verdict;
  return {
    code: codeNumbers[code],
    current_limit: encodeLimit(asUint32(limit, limit.requestsPerUnit), label),
    limit_remaining: asUint32(limit, shownRemaining(verdict)),
    duration_until_reset: {
      seconds: Math.min(toWholeSeconds(shownResetMs(verdict)), MAX_DURATION_S),
      nanos: 0,
    },
  };
}

/** At most what the field holds, which headers and the detail have exactly. */
const asUint32 = (limit: Limit, count: number): number => asInteger(limit, count, MAX_UINT32);

function encodeLimit(requestsPerUnit: number, { name, unit, unitMultiplier }: LimitLabel): WireLimit {
  const limit = { name, requests_per_unit: requestsPerUnit, unit: unitNumbers[unit] };
  return unitMultiplier === 1 ? limit : { ...limit, unit_multiplier: { value: unitMultiplier } };
}

/**
 * Maximum duration of the protocol, ten thousand years.
 *
 * @see https://protobuf.dev/reference/protobuf/google.protobuf/#duration
 */
const MAX_DURATION_S = 315_576_000_000;
