import { decodeRequest } from '../../../edge/wire/codec.ts';
import { requestFromJson } from '../../../edge/wire/json.ts';
import { InvalidJson } from '../../../edge/wire/json-reader.ts';
import { maximumRequest, type WireDescriptor, type WireRequest } from '../../../edge/wire/wire.ts';
import { unitMs } from '../../../engine/algorithms/limit.ts';
import { InvalidRequest } from '../../../engine/decide/decide.ts';
import type { StandingOverride } from '../../../engine/decide/overrides.ts';
import type { RecordedRequest } from '../request.ts';
import { MAX_TIME_MS } from './times.ts';

type RecordedAnswer = NonNullable<RecordedRequest['answer']>;

/** A JSON object, either a line or a part of one. */
export type Fields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= maximumRequest.textLength;

/** The fields of a line that are not part of the request. */
const outcomeFields: ReadonlySet<string> = new Set(['time', 'timeoutMs', 'answer', 'label', 'hashed']);

/** Parses the request in the fields of a line, with its time and outcome, or returns a text with the error. */
export function parseRecorded(line: Fields): RecordedRequest | string {
  const { time, timeoutMs, answer, label, hashed } = line;
  if (typeof time !== 'number' || !Number.isSafeInteger(time) || time < 0 || time > MAX_TIME_MS)
    return `time must be whole milliseconds since the epoch, got ${JSON.stringify(time)}`;
  const recorded = answer === undefined ? undefined : parseAnswer(answer);
  if (recorded === 'wrong') return 'answer must have a code, OK or OVER_LIMIT, and descriptors';
  if (label !== undefined && label !== 'allow' && label !== 'refuse') return 'label must be allow or refuse';
  const request = parseRequest(line);
  if (typeof request === 'string') return request;
  return {
    timeMs: time,
    request,
    answer: recorded,
    label,
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : undefined,
    hashedBy: hashed === true ? rulesIn(answer) : undefined,
  };
}

/** Parses the request in the fields of a line, or returns a text with the error. */
function parseRequest(line: Fields): RecordedRequest['request'] | string {
  try {
    return decodeRequest(plainRequest(line) ?? requestFromJson(requestBody(line)));
  } catch (error) {
    if (error instanceof InvalidJson || error instanceof InvalidRequest) return error.message;
    throw error;
  }
}

function requestBody(line: Fields): Buffer {
  const fields = Object.entries(line).filter(([name]) => !outcomeFields.has(name));
  return Buffer.from(JSON.stringify(Object.fromEntries(fields)));
}

/** A request of only texts and plain hits, which takes a third of the time; undefined if it needs the full decoder. */
function plainRequest(body: Fields): WireRequest | undefined {
  let hits = 0;
  for (const name in body) {
    if (name === 'domain' || name === 'descriptors' || outcomeFields.has(name)) continue;
    if (name !== 'hitsAddend' || !isPlainHits(body[name])) return undefined;
    hits = body[name];
  }
  const { domain, descriptors } = body;
  if (!isText(domain) || !Array.isArray(descriptors) || descriptors.length > maximumRequest.descriptors)
    return undefined;
  const plain: WireDescriptor[] = [];
  for (const descriptor of descriptors) {
    const one = isObject(descriptor) ? plainDescriptor(descriptor) : undefined;
    if (!one) return undefined;
    plain.push(one);
  }
  return { domain, descriptors: plain, hits_addend: hits };
}

const isPlainHits = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff;

function plainDescriptor(descriptor: Fields): WireDescriptor | undefined {
  let hits: { readonly value: number } | null = null;
  let negative = false;
  for (const name in descriptor) {
    const value = descriptor[name];
    if (name === 'entries') continue;
    if (name === 'hitsAddend' && isPlainHits(value)) hits = { value };
    else if (name === 'isNegativeHits' && typeof value === 'boolean') negative = value;
    else return undefined;
  }
  const { entries } = descriptor;
  if (!Array.isArray(entries) || entries.length > maximumRequest.entries || !entries.every(isPlainEntry))
    return undefined;
  return { entries, limit: null, hits_addend: hits, is_negative_hits: negative };
}

function isPlainEntry(entry: unknown): entry is { readonly key: string; readonly value: string } {
  if (!isObject(entry) || !isText(entry.key) || !isText(entry.value)) return false;
  for (const name in entry) if (name !== 'key' && name !== 'value') return false;
  return true;
}

function parseAnswer(answer: unknown): RecordedAnswer | 'wrong' {
  if (!isObject(answer) || !isCode(answer.code)) return 'wrong';
  const { code, descriptors } = answer;
  if (descriptors === undefined) return { code };
  return Array.isArray(descriptors) && descriptors.every(isRecordedDescriptor) ? { code, descriptors } : 'wrong';
}

const isCode = (code: unknown): code is RecordedAnswer['code'] => code === 'OK' || code === 'OVER_LIMIT';

const isRecordedDescriptor = (one: unknown): one is NonNullable<RecordedAnswer['descriptors']>[number] =>
  isObject(one) && isCode(one.code) && typeof one.remaining === 'number';

function rulesIn(answer: unknown): readonly (string | undefined)[] {
  if (!isObject(answer) || !Array.isArray(answer.descriptors)) return [];
  return answer.descriptors.map((one) => (isObject(one) && typeof one.rule === 'string' ? one.rule : undefined));
}

export function isOverride(one: unknown): one is StandingOverride {
  if (!isObject(one) || !isText(one.domain) || typeof one.untilMs !== 'number') return false;
  return Array.isArray(one.entries) && one.entries.every(isPlainEntry) && isOverrideEffect(one.effect);
}

function isOverrideEffect(effect: unknown): boolean {
  if (!isObject(effect)) return false;
  const { kind, requestsPerUnit, unit } = effect;
  if (kind !== 'limit') return kind === 'block' || kind === 'exempt';
  return isPlainHits(requestsPerUnit) && typeof unit === 'string' && Object.hasOwn(unitMs, unit);
}
