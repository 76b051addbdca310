import type { RecordedRequest } from '../request.ts';
import { PlainRequests } from './plain-request.ts';
import { RepeatedTexts } from './repeated-texts.ts';
import {
  isBesideRequest,
  isObject,
  outcomeFields,
  type RecordedOutcome,
  recordedAt,
  recordedOutcomeOf,
  recordedRequestOf,
} from './request-line.ts';
import { MAX_TIME_MS } from './times.ts';

const TIME = ',"time":';
const ZERO = 48;
const COMMA = 44;

/**
 * Reads lines in the form that a recorder writes: the request, its time, then its outcome. Outcomes repeat and are
 * cached; requests are not cached, since those of many users hardly repeat.
 */
export class UsualLines {
  readonly #plain = new PlainRequests();
  readonly #outcomes = new RepeatedTexts(outcomeIn);

  /** Undefined: the line has another form, or is broken. Otherwise the result equals that of parsing the whole line. */
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

/** @param text  the line before the comma that precedes its time */
function requestIn(text: string): RecordedRequest['request'] | undefined {
  const fields = parsed(`${text}}`);
  if (!isObject(fields) || !('domain' in fields || 'descriptors' in fields)) return undefined;
  for (const name in fields) if (isBesideRequest(name)) return undefined;
  const request = recordedRequestOf(fields);
  return typeof request === 'string' ? undefined : request;
}

/** @param text  the line after its time */
function outcomeIn(text: string): RecordedOutcome | undefined {
  const fields = text === '}' ? {} : parsedAfterComma(text);
  if (!isObject(fields)) return undefined;
  for (const name in fields) if (!outcomeFields.has(name)) return undefined;
  const outcome = recordedOutcomeOf(fields);
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
