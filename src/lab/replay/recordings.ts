import { unitMs } from '../../engine/algorithms/limit.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { RecordedSettings, RecordingHeader } from '../record/format.ts';
import { chunksOf, type Input, linesOf, STANDARD_INPUT } from './input.ts';
import { merged } from './order.ts';
import {
  type Fields,
  isObject,
  isPlainEntry,
  isPlainHits,
  isText,
  recordedAt,
  recordedOutcomeOf,
  recordedRequestOf,
  UsualLines,
} from './readers/request-line.ts';
import { MAX_TIME_MS } from './readers/times.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';
import { chained, requestsOf, type TrafficCounts, type TrafficReader } from './traffic.ts';

/**
 * The requests of recordings: the files of one process in sequence, those of several processes merged by time.
 *
 * @throws UnreadableInput
 */
export async function openRecordings(
  inputs: readonly Input[],
  listener: RecordingListener,
  counts: TrafficCounts,
): Promise<RecordedTraffic> {
  const [only] = inputs;
  if (only && inputs.length === 1) return requestsOf(only, new RecordingReader(listener), counts);
  const streams = new Map<string, { readonly input: Input; readonly part: number }[]>();
  for (const [at, input] of inputs.entries()) {
    const header = input.bytes === undefined ? undefined : await firstHeaderOf(input);
    const { stream = OTHERS, part = at } = header ?? {};
    streams.set(stream, [...(streams.get(stream) ?? []), { input, part }]);
  }
  return merged(
    Array.from(streams.values(), (files) => {
      const reader = new RecordingReader(listener);
      const inOrder = files.toSorted((one, other) => one.part - other.part);
      return chained(inOrder.map(({ input }) => requestsOf(input, reader, counts)));
    }),
  );
}

/** The group of files without a header. */
const OTHERS = STANDARD_INPUT;

async function firstHeaderOf(input: Input) {
  const ignore = (): void => {};
  for await (const [line = ''] of linesOf(chunksOf(input, ignore, ignore))) return headerOf(line);
  return undefined;
}

/** Receives the information in a recording other than requests. */
interface RecordingListener {
  onSettings(settings: RecordedSettings): void;
  /** Only this share of all counters was recorded. */
  onSample(sample: number): void;
  onDropped(requests: number): void;
  /** @param digest  of the rules in force from now on: see `matchDigest` */
  onRules(digest: string): void;
}

/** Reads Weir's recordings, and lines that are bodies of `/json` with a `time`. */
export class RecordingReader implements TrafficReader {
  readonly #listener: RecordingListener;
  readonly #usual = new UsualLines();
  /** For the next request. */
  #overrides: readonly StandingOverride[] | undefined;

  constructor(listener: RecordingListener) {
    this.#listener = listener;
  }

  read(lines: readonly string[]): readonly (RecordedRequest | string | undefined)[] {
    return lines.map((line) => (line === '' ? undefined : this.#readLine(line)));
  }

  #readLine(line: string): RecordedRequest | string | undefined {
    const usual = this.#overrides ? undefined : this.#usual.read(line);
    if (usual) return usual;
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
    const { time } = line;
    if (typeof time !== 'number' || !Number.isSafeInteger(time) || time < 0 || time > MAX_TIME_MS)
      return `time must be whole milliseconds since the epoch, got ${JSON.stringify(time)}`;
    const outcome = recordedOutcomeOf(line);
    if (typeof outcome === 'string') return outcome;
    const request = recordedRequestOf(line);
    if (typeof request === 'string') return request;
    const overrides = this.#overrides;
    this.#overrides = undefined;
    const recorded = recordedAt(time, request, outcome);
    return overrides ? { ...recorded, overrides } : recorded;
  }

  #readNote(line: Fields): undefined | string {
    const { recording, overrides, dropped, rulesChanged } = line;
    if (isObject(recording)) {
      // the format of a recording's first line
      const { settings, sample, rules } = recording as unknown as RecordingHeader['recording'];
      if (typeof rules === 'string') this.#listener.onRules(rules);
      if (isObject(settings)) this.#listener.onSettings(settings);
      if (typeof sample === 'number') this.#listener.onSample(sample);
    } else if (Array.isArray(overrides)) {
      if (!overrides.every(isOverride)) return 'overrides must be in the format of a recording';
      this.#overrides = overrides;
    } else if (typeof dropped === 'number') this.#listener.onDropped(dropped);
    else if (isObject(rulesChanged) && typeof rulesChanged.digest === 'string') {
      this.#listener.onRules(rulesChanged.digest);
    } else return 'expected a request with domain and descriptors';
    return undefined;
  }
}

/** The header of a file, if its first line is one. */
function headerOf(firstLine: string): RecordingHeader['recording'] | undefined {
  try {
    const value: unknown = JSON.parse(firstLine);
    if (!isObject(value) || !isObject(value.recording)) return undefined;
    return value.recording as unknown as RecordingHeader['recording']; // the format in which it was written
  } catch {
    return undefined;
  }
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
