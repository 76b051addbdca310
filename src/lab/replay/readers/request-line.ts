import { unitMs } from '../../../engine/algorithms/limit.ts';
import { inOnePiece } from '../../../engine/backends/key.ts';
import { InvalidRequest } from '../../../engine/decide/decide.ts';
import type { StandingOverride } from '../../../engine/decide/overrides.ts';
import { decodeRequest } from '../../../engine/wire/codec.ts';
import { requestFromJson } from '../../../engine/wire/json.ts';
import { InvalidJson } from '../../../engine/wire/json-reader.ts';
import { maximumRequest, type WireDescriptor, type WireRequest } from '../../../engine/wire/wire.ts';
import type { RecordedRequest } from '../request.ts';
import { MAX_TIME_MS } from './times.ts';

type RecordedAnswer = NonNullable<RecordedRequest['answer']>;

/** A JSON object, either a line or a part of one. */
export type Fields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= maximumRequest.textLength;

/** The fields of a line besides the request and its time. */
type RecordedOutcome = Pick<RecordedRequest, 'answer' | 'label' | 'timeoutMs' | 'hashedBy'>;

const outcomeFields: ReadonlySet<string> = new Set(['timeoutMs', 'answer', 'label', 'hashed']);

/** Whether a field of a line is not part of the request. */
const isBesideRequest = (name: string): boolean => name === 'time' || outcomeFields.has(name);

/** Parses the request in the fields of a line, with its time and outcome, or returns a text with the error. */
export function parseRecorded(line: Fields): RecordedRequest | string {
  const { time } = line;
  if (typeof time !== 'number' || !Number.isSafeInteger(time) || time < 0 || time > MAX_TIME_MS)
    return `time must be whole milliseconds since the epoch, got ${JSON.stringify(time)}`;
  const outcome = parseOutcome(line);
  if (typeof outcome === 'string') return outcome;
  const request = parseRequest(line);
  return typeof request === 'string' ? request : recordedAt(time, request, outcome);
}

/** @returns a text with the error */
function parseOutcome({ timeoutMs, answer, label, hashed }: Fields): RecordedOutcome | string {
  const recorded = answer === undefined ? undefined : parseAnswer(answer);
  if (recorded === 'wrong') return 'answer must have a code, OK or OVER_LIMIT, and descriptors';
  if (label !== undefined && label !== 'allow' && label !== 'refuse') return 'label must be allow or refuse';
  return {
    answer: recorded,
    label,
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : undefined,
    hashedBy: hashed === true ? rulesIn(answer) : undefined,
  };
}

/** Creates the object with all fields in the same order, since objects of one shape are faster. */
const recordedAt = (
  timeMs: number,
  request: RecordedRequest['request'],
  { answer, label, timeoutMs, hashedBy }: RecordedOutcome,
): RecordedRequest => ({ timeMs, request, answer, label, timeoutMs, hashedBy });

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
  const fields = Object.entries(line).filter(([name]) => !isBesideRequest(name));
  return Buffer.from(JSON.stringify(Object.fromEntries(fields)));
}

/** A request of only texts and plain hits; undefined if it needs the full decoder. */
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

const TIME = ',"time":';
const ZERO = 48;
const COMMA = 44;

/**
 * Reads lines in the form that a recorder writes, with the request, its time, and its outcome. Outcomes repeat and are
 * cached; requests are not, since those of many users rarely repeat.
 */
export class RecorderLines {
  readonly #plain = new PlainRequests();
  readonly #outcomes = new RepeatedTexts(outcomeIn);

  /**
   * Reads a line. The result equals that of parsing the whole line, or is undefined if the line has another form or is
   * broken.
   */
  read(line: string): RecordedRequest | undefined {
    const at = line.indexOf(TIME);
    if (at < 0) return undefined;
    const start = at + TIME.length;
    let end = start;
    let timeMs = 0;
    for (let digit = line.charCodeAt(end) - ZERO; digit >= 0 && digit <= 9; digit = line.charCodeAt(end) - ZERO) {
      timeMs = 10 * timeMs + digit;
      end++;
    }
    const isNumber = end === start + 1 || (end > start && line.charCodeAt(start) !== ZERO);
    if (!isNumber || timeMs > MAX_TIME_MS) return undefined;
    const outcome = this.#outcomes.of(line.slice(end));
    const request = outcome && (this.#plain.read(line, at) ?? requestIn(line.slice(0, at)));
    return request && recordedAt(timeMs, request, outcome);
  }
}

/** @param text  line up to the comma before its time */
function requestIn(text: string): RecordedRequest['request'] | undefined {
  const fields = parsed(`${text}}`);
  if (!isObject(fields) || !('domain' in fields || 'descriptors' in fields)) return undefined;
  for (const name in fields) if (isBesideRequest(name)) return undefined;
  const request = parseRequest(fields);
  return typeof request === 'string' ? undefined : request;
}

/** @param text  rest of the line after its time */
function outcomeIn(text: string): RecordedOutcome | undefined {
  const fields = text === '}' ? {} : parsedAfterComma(text);
  if (!isObject(fields)) return undefined;
  for (const name in fields) if (!outcomeFields.has(name)) return undefined;
  const outcome = parseOutcome(fields);
  return typeof outcome === 'string' ? undefined : outcome;
}

function parsedAfterComma(text: string): unknown {
  const fields = text.charCodeAt(0) === COMMA ? parsed(`{${text.slice(1)}`) : undefined;
  return isObject(fields) && Object.keys(fields).length > 0 ? fields : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;

/**
 * Parses recorded requests with plain entries and texts without escapes. JSON.parse takes several times as long for
 * these few texts.
 */
class PlainRequests {
  #line = '';
  #at = 0;

  /**
   * The request at the start of the line; undefined if it must be parsed as JSON.
   *
   * @param end  index at which the request ends
   */
  read(line: string, end: number): RecordedRequest['request'] | undefined {
    this.#line = line;
    this.#at = 0;
    const domain = this.#takes('{"domain":"') ? this.#text() : undefined;
    if (domain === undefined || !this.#takes(',"descriptors":[')) return undefined;
    const descriptors: WireDescriptor[] = [];
    do {
      const entries = this.#entries();
      if (!entries || descriptors.length >= maximumRequest.descriptors) return undefined;
      descriptors.push({ entries, limit: null, hits_addend: null, is_negative_hits: false });
    } while (this.#takes(','));
    if (!this.#takes(']') || this.#at !== end) return undefined;
    return decodeRequest({ domain, descriptors, hits_addend: 0 });
  }

  #entries(): WireDescriptor['entries'] | undefined {
    if (!this.#takes('{"entries":[')) return undefined;
    const entries: { readonly key: string; readonly value: string }[] = [];
    do {
      const key = this.#takes('{"key":"') ? this.#text() : undefined;
      const value = key !== undefined && this.#takes(',"value":"') ? this.#text() : undefined;
      if (key === undefined || value === undefined || !this.#takes('}')) return undefined;
      if (entries.length >= maximumRequest.entries) return undefined;
      entries.push({ key, value });
    } while (this.#takes(','));
    return this.#takes(']}') ? entries : undefined;
  }

  #takes(token: string): boolean {
    if (!this.#line.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  /** Reads up to the next quote, and skips the quote. */
  #text(): string | undefined {
    const line = this.#line;
    const start = this.#at;
    let end = start;
    for (let code = line.charCodeAt(end); code !== QUOTE; code = line.charCodeAt(++end))
      if (!(code >= SPACE) || code === BACKSLASH) return undefined; // NaN at the end
    this.#at = end + 1;
    // a slice of a line would keep the whole chunk alive
    return end - start > maximumRequest.textLength ? undefined : inOnePiece(line.slice(start, end));
  }
}

/** Maximum number of texts in each of the two maps. */
const MAX_TEXTS = 2_048;
/** Maximum length of cached texts. */
const MAX_TEXT_LENGTH = 512;

/**
 * Caches the parsed values of recent texts in two maps of bounded size, of which the older is dropped when the newer is
 * full.
 */
class RepeatedTexts<T extends object> {
  readonly #parse: (text: string) => T | undefined;
  #recent = new Map<string, T>();
  #older = new Map<string, T>();

  /** @param parse  pure function of the text; results of undefined are not cached */
  constructor(parse: (text: string) => T | undefined) {
    this.#parse = parse;
  }

  of(text: string): T | undefined {
    return this.#recent.get(text) ?? this.#remember(text, this.#older.get(text) ?? this.#parse(text));
  }

  #remember(text: string, value: T | undefined): T | undefined {
    if (value === undefined || text.length > MAX_TEXT_LENGTH) return value;
    if (this.#recent.size >= MAX_TEXTS) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(inOnePiece(text), value); // a slice of a line would keep the whole chunk alive
    return value;
  }
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
