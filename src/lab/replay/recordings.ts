import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { RecordedSettings, RecordingHeader } from '../record/format.ts';
import { type Input, linesOf } from './input.ts';
import { merged } from './order.ts';
import { type Fields, isObject, isOverride, recordedOf, UsualLines } from './readers/request-line.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';
import { requestsOf, type TrafficCounts, type TrafficReader } from './traffic.ts';

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

/** Recordings one after the other. */
async function* chained(all: readonly RecordedTraffic[]): RecordedTraffic {
  for (const one of all) yield* one;
}

/** The group of files without a header. */
const OTHERS = '-';

async function firstHeaderOf(input: Input) {
  for await (const [line = ''] of linesOf(input)) return headerOf(line);
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
    const recorded = recordedOf(line);
    if (typeof recorded === 'string') return recorded;
    const overrides = this.#overrides;
    this.#overrides = undefined;
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
