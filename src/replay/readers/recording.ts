import { unitMs } from '../../algorithms/limit.ts';
import { InvalidRequest } from '../../decide.ts';
import type { StandingOverride } from '../../overrides.ts';
import type { RecordedSettings, RecordingHeader } from '../../record/format.ts';
import { decodeRequest } from '../../rls/codec.ts';
import { requestFromJson } from '../../rls/json.ts';
import { InvalidJson } from '../../rls/json-reader.ts';
import { maximumRequest, type WireDescriptor, type WireRequest } from '../../rls/wire.ts';
import type { RecordedAnswer, RecordedDescriptor, RecordedRequest } from '../request.ts';
import type { TrafficReader } from '../traffic.ts';
import { MAX_TIME_MS } from './times.ts';

/** What the lines of a recording say besides requests. */
export interface RecordingListener {
  onSettings(settings: RecordedSettings): void;
  /** A part of all counters was recorded. */
  onSample(sample: number): void;
  onDropped(requests: number): void;
  /** @param digest  of the rules in force from here on: see `matchDigest` */
  onRules(digest: string): void;
}

/** Reads Weir's recordings, and bodies of `/json` with a `time`, one a line. */
export class RecordingReader implements TrafficReader {
  readonly #listener: RecordingListener;
  /** For the next request. */
  #overrides: readonly StandingOverride[] | undefined;

  constructor(listener: RecordingListener) {
    this.#listener = listener;
  }

  read(lines: readonly string[]): readonly (RecordedRequest | string | undefined)[] {
    return lines.map((line) => (line === '' ? undefined : this.#readLine(line)));
  }

  #readLine(line: string): RecordedRequest | string | undefined {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (error) {
      return `not JSON: ${error instanceof Error ? error.message : error}`;
    }
    if (!isObject(value)) return 'expected a JSON object';
    if ('descriptors' in value || 'domain' in value) return this.#readRequest(value);
    return this.#readNote(value);
  }

  #readRequest(line: Fields): RecordedRequest | string {
    const { time, timeoutMs, answer, label, hashed } = line;
    if (typeof time !== 'number' || !Number.isSafeInteger(time) || time < 0 || time > MAX_TIME_MS)
      return `time must be whole milliseconds since the epoch, got ${JSON.stringify(time)}`;
    const recordedAnswer = answer === undefined ? undefined : answerOf(answer);
    if (recordedAnswer === 'wrong') return 'answer must have a code, OK or OVER_LIMIT, and descriptors';
    if (label !== undefined && label !== 'allow' && label !== 'refuse') return 'label must be allow or refuse';
    let request: RecordedRequest['request'];
    try {
      request = decodeRequest(plainRequest(line) ?? requestFromJson(bodyOf(line)));
    } catch (error) {
      if (error instanceof InvalidJson || error instanceof InvalidRequest) return error.message;
      throw error;
    }
    const isPlain = timeoutMs === undefined && label === undefined && hashed === undefined && !this.#overrides;
    if (isPlain && recordedAnswer) return { timeMs: time, request, answer: recordedAnswer };
    const overrides = this.#overrides;
    this.#overrides = undefined;
    return {
      timeMs: time,
      request,
      ...(recordedAnswer && { answer: recordedAnswer }),
      ...(label !== undefined && { label }),
      ...(typeof timeoutMs === 'number' && { timeoutMs }),
      ...(overrides && { overrides }),
      ...(hashed === true && { hashedBy: rulesIn(answer) }),
    };
  }

  #readNote(line: Fields): undefined | string {
    const { recording, overrides, dropped, rulesChanged } = line;
    if (isObject(recording)) {
      // as the first line of a recording is written
      const { settings, sample, rules } = recording as unknown as RecordingHeader['recording'];
      if (typeof rules === 'string') this.#listener.onRules(rules);
      if (isObject(settings)) this.#listener.onSettings(settings);
      if (typeof sample === 'number') this.#listener.onSample(sample);
    } else if (Array.isArray(overrides)) {
      if (!overrides.every(isOverride)) return 'overrides must be as a recording has them';
      this.#overrides = overrides;
    } else if (typeof dropped === 'number') this.#listener.onDropped(dropped);
    else if (isObject(rulesChanged) && typeof rulesChanged.digest === 'string') {
      this.#listener.onRules(rulesChanged.digest);
    } else return 'expected a request with domain and descriptors';
    return undefined;
  }
}

/** The header of a file, if its first line is one. */
export function headerOf(firstLine: string): RecordingHeader['recording'] | undefined {
  try {
    const value: unknown = JSON.parse(firstLine);
    if (!isObject(value) || !isObject(value.recording)) return undefined;
    return value.recording as unknown as RecordingHeader['recording']; // as it was written
  } catch {
    return undefined;
  }
}

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= maximumRequest.textLength;

/** Fields of a line that are not the request's. */
const besideRequest: ReadonlySet<string> = new Set(['time', 'timeoutMs', 'answer', 'label', 'hashed']);

function bodyOf(line: Fields): Buffer {
  const fields = Object.entries(line).filter(([name]) => !besideRequest.has(name));
  return Buffer.from(JSON.stringify(Object.fromEntries(fields)));
}

/** A request that has nothing but texts and plain hits; undefined: read it in full. */
function plainRequest(body: Fields): WireRequest | undefined {
  let hits = 0;
  for (const name in body) {
    if (name === 'domain' || name === 'descriptors' || besideRequest.has(name)) continue;
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

function isOverride(one: unknown): one is StandingOverride {
  if (!isObject(one) || !isText(one.domain) || typeof one.untilMs !== 'number') return false;
  return Array.isArray(one.entries) && one.entries.every(isPlainEntry) && isOverrideEffect(one.effect);
}

function isOverrideEffect(effect: unknown): boolean {
  if (!isObject(effect)) return false;
  const { kind, requestsPerUnit, unit } = effect;
  if (kind !== 'limit') return kind === 'block' || kind === 'exempt';
  return isPlainHits(requestsPerUnit) && typeof unit === 'string' && Object.hasOwn(unitMs, unit);
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
