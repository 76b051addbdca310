import { readDetail } from './decode.ts';
import {
  commitOutcomes,
  type HoldAnswers,
  type HoldRequest,
  type LimitRequest,
  type Reply,
  type ReplyCode,
  replyCodes,
  type SlotAnswer,
  type Status,
  units,
  windowLengthMs,
} from './messages.ts';

/** A RateLimitRequest in proto3's JSON mapping, for `/json`. */
export const requestToJson = (request: LimitRequest): string => JSON.stringify(toMessage(request));

/** A request of weir.v1.Holds in proto3's JSON mapping, for `/holds/`. */
export const holdToJson = ({ request, maxDelayMs = 0 }: HoldRequest): string =>
  JSON.stringify({
    request: toMessage(request),
    ...(maxDelayMs > 0 && { maxDelay: `${Math.floor(maxDelayMs) / 1_000}s` }),
  });

function toMessage({ domain, descriptors, hits }: LimitRequest): object {
  const own = hits > 0 ? {} : { hitsAddend: -hits, ...(hits < 0 && { isNegativeHits: true }) };
  return {
    domain,
    descriptors: descriptors.map((entries) => ({ entries: entries.map(([key, value]) => ({ key, value })), ...own })),
    ...(hits > 0 && { hitsAddend: hits }),
  };
}

/** Reads a RateLimitResponse in proto3's JSON mapping. Throws an Error if it is not one. */
export function replyFromJson(text: string): Reply {
  const body: unknown = JSON.parse(text);
  if (!isObject(body) || readCode(body.overallCode) === 'UNKNOWN') throw new Error('not a RateLimitResponse');
  return {
    code: readCode(body.overallCode),
    statuses: readList(body.statuses).map(readStatus),
    headers: readList(body.responseHeadersToAdd).map(({ key, value }) => ({ key: String(key), value: String(value) })),
    body: typeof body.rawBody === 'string' ? Buffer.from(body.rawBody, 'base64').toString() : undefined,
    detail: isObject(body.dynamicMetadata) ? readDetail(body.dynamicMetadata) : undefined,
  };
}

/** Reads the answer of each method of weir.v1.Holds. Throws an Error if it is not one. */
export const holdFromJson: { readonly [M in keyof HoldAnswers]: (text: string) => HoldAnswers[M] } = {
  Acquire: readSlots,
  Renew: readSlots,
  Release: () => undefined,
  Reserve(text) {
    const { reserved, hits, ttl, retryAfter } = parse(text, 'reserved', 'boolean');
    return {
      reserved: reserved === true,
      hits: Number(hits ?? 0),
      ttlMs: durationMs(ttl) ?? 0,
      retryAfterMs: durationMs(retryAfter),
    };
  },
  Commit(text) {
    const { outcome, charged, overrun } = parse(text, 'outcome', 'string');
    return {
      outcome: commitOutcomes.find((name) => name.toUpperCase() === outcome) ?? 'committed',
      charged: Number(charged ?? 0),
      overrun: Number(overrun ?? 0),
    };
  },
};

function readSlots(text: string): SlotAnswer {
  const { held, ttl, retryAfter } = parse(text, 'held', 'boolean');
  return { held: held === true, ttlMs: durationMs(ttl) ?? 0, retryAfterMs: durationMs(retryAfter) };
}

function parse(text: string, field: string, type: 'boolean' | 'string'): JsonFields {
  const body: unknown = JSON.parse(text);
  if (isObject(body) && typeof body[field] === type) return body;
  throw new Error(`expected an answer with ${field}`);
}

type JsonFields = Readonly<Record<string, unknown>>;

function readStatus({ code, currentLimit, limitRemaining, durationUntilReset }: JsonFields): Status {
  const limit = isObject(currentLimit) ? currentLimit : undefined;
  const unit = units.find(([name]) => name === limit?.unit);
  return {
    code: readCode(code),
    limit: limit && {
      name: typeof limit.name === 'string' ? limit.name : '',
      requestsPerUnit: Number(limit.requestsPerUnit ?? 0),
      windowMs: windowLengthMs(unit?.[1], Number(limit.unitMultiplier ?? 1)),
    },
    remaining: Number(limitRemaining ?? 0),
    resetMs: durationMs(durationUntilReset),
  };
}

/** A google.protobuf.Duration, which has whole nanoseconds, in ms, rounded up. */
const durationMs = (written: unknown): number | undefined =>
  typeof written === 'string' ? Math.ceil(Math.round(Number.parseFloat(written) * 1e9) / 1e6) : undefined;

const readCode = (written: unknown): ReplyCode => replyCodes.find((name) => name === written) ?? 'UNKNOWN';

const isObject = (value: unknown): value is JsonFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const readList = (value: unknown): readonly JsonFields[] => (Array.isArray(value) ? value.filter(isObject) : []);
