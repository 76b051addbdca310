import { InvalidRequest } from '../../../engine/decide/decide.ts';
import { decodeRequest } from '../../../engine/wire/codec.ts';
import { requestFromJson } from '../../../engine/wire/json.ts';
import { InvalidJson } from '../../../engine/wire/json-reader.ts';
import { maximumRequest, type WireDescriptor, type WireRequest } from '../../../engine/wire/wire.ts';
import type { RecordedAnswer, RecordedDescriptor, RecordedRequest } from '../request.ts';

/** A JSON object: a line or a part of one. */
export type Fields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= maximumRequest.textLength;

/** The fields of a line besides the request and its time. */
export type RecordedOutcome = Pick<RecordedRequest, 'answer' | 'label' | 'timeoutMs' | 'hashedBy'>;

export const outcomeFields: ReadonlySet<string> = new Set(['timeoutMs', 'answer', 'label', 'hashed']);

/** Whether a field of a line is not part of the request. */
export const isBesideRequest = (name: string): boolean => name === 'time' || outcomeFields.has(name);

/** @returns a text: the error */
export function recordedOutcomeOf({ timeoutMs, answer, label, hashed }: Fields): RecordedOutcome | string {
  const recorded = answer === undefined ? undefined : answerOf(answer);
  if (recorded === 'wrong') return 'answer must have a code, OK or OVER_LIMIT, and descriptors';
  if (label !== undefined && label !== 'allow' && label !== 'refuse') return 'label must be allow or refuse';
  return {
    answer: recorded,
    label,
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : undefined,
    hashedBy: hashed === true ? rulesIn(answer) : undefined,
  };
}

/** Lists the fields one by one: objects of the same shape are faster. */
export const recordedAt = (
  timeMs: number,
  request: RecordedRequest['request'],
  { answer, label, timeoutMs, hashedBy }: RecordedOutcome,
): RecordedRequest => ({ timeMs, request, answer, label, timeoutMs, hashedBy });

/** The request in the fields of a line, except those beside it. A text: the error. */
export function recordedRequestOf(line: Fields): RecordedRequest['request'] | string {
  try {
    return decodeRequest(plainRequest(line) ?? requestFromJson(bodyOf(line)));
  } catch (error) {
    if (error instanceof InvalidJson || error instanceof InvalidRequest) return error.message;
    throw error;
  }
}

function bodyOf(line: Fields): Buffer {
  const fields = Object.entries(line).filter(([name]) => !isBesideRequest(name));
  return Buffer.from(JSON.stringify(Object.fromEntries(fields)));
}

/** A request of only texts and plain hits; undefined: it needs the full decoder. */
function plainRequest(body: Fields): WireRequest | undefined {
  let hits = 0;
  for (const name in body) {
    if (name === 'domain' || name === 'descriptors' || isBesideRequest(name)) continue;
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

export const isPlainHits = (value: unknown): value is number =>
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

export function isPlainEntry(entry: unknown): entry is { readonly key: string; readonly value: string } {
  if (!isObject(entry) || !isText(entry.key) || !isText(entry.value)) return false;
  for (const name in entry) if (name !== 'key' && name !== 'value') return false;
  return true;
}

function answerOf(answer: unknown): RecordedAnswer | 'wrong' {
  if (!isObject(answer) || !isCode(answer.code)) return 'wrong';
  const { code, descriptors } = answer;
  if (descriptors === undefined) return { code };
  return Array.isArray(descriptors) && descriptors.every(isRecordedDescriptor) ? { code, descriptors } : 'wrong';
}

const isCode = (code: unknown): code is RecordedAnswer['code'] => code === 'OK' || code === 'OVER_LIMIT';

const isRecordedDescriptor = (one: unknown): one is RecordedDescriptor =>
  isObject(one) && isCode(one.code) && typeof one.remaining === 'number';

function rulesIn(answer: unknown): readonly (string | undefined)[] {
  if (!isObject(answer) || !Array.isArray(answer.descriptors)) return [];
  return answer.descriptors.map((one) => (isObject(one) && typeof one.rule === 'string' ? one.rule : undefined));
}
