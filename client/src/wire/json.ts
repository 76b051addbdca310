import { detailOf } from './decode.ts';
import {
  type LimitRequest,
  type Reply,
  type ReplyCode,
  replyCodes,
  type Status,
  units,
  windowMsOf,
} from './messages.ts';

/** A RateLimitRequest in proto3's JSON mapping, for `/json`. */
export function requestToJson({ domain, descriptors, hits }: LimitRequest): string {
  const own = hits > 0 ? {} : { hitsAddend: -hits, ...(hits < 0 && { isNegativeHits: true }) };
  return JSON.stringify({
    domain,
    descriptors: descriptors.map((entries) => ({ entries: entries.map(([key, value]) => ({ key, value })), ...own })),
    ...(hits > 0 && { hitsAddend: hits }),
  });
}

/** Reads a RateLimitResponse in proto3's JSON mapping. Throws an Error if it is not one. */
export function replyFromJson(text: string): Reply {
  const body: unknown = JSON.parse(text);
  if (!isObject(body) || codeOf(body.overallCode) === 'UNKNOWN') throw new Error('not a RateLimitResponse');
  return {
    code: codeOf(body.overallCode),
    statuses: listOf(body.statuses).map(statusOf),
    headers: listOf(body.responseHeadersToAdd).map(({ key, value }) => ({ key: String(key), value: String(value) })),
    detail: isObject(body.dynamicMetadata) ? detailOf(body.dynamicMetadata) : undefined,
  };
}

type JsonFields = Readonly<Record<string, unknown>>;

function statusOf({ code, currentLimit, limitRemaining, durationUntilReset }: JsonFields): Status {
  const limit = isObject(currentLimit) ? currentLimit : undefined;
  const unit = units.find(([name]) => name === limit?.unit);
  return {
    code: codeOf(code),
    limit: limit && {
      name: typeof limit.name === 'string' ? limit.name : '',
      requestsPerUnit: Number(limit.requestsPerUnit ?? 0),
      windowMs: windowMsOf(unit?.[1], Number(limit.unitMultiplier ?? 1)),
    },
    remaining: Number(limitRemaining ?? 0),
    resetMs:
      typeof durationUntilReset === 'string' ? Math.ceil(Number.parseFloat(durationUntilReset) * 1_000) : undefined,
  };
}

const codeOf = (written: unknown): ReplyCode => replyCodes.find((name) => name === written) ?? 'UNKNOWN';

const isObject = (value: unknown): value is JsonFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const listOf = (value: unknown): readonly JsonFields[] => (Array.isArray(value) ? value.filter(isObject) : []);
