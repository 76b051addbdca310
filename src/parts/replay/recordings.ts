import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { RecordingHeader } from '../lab/record/format.ts';
import { type Input, readLines } from './input.ts';
import { merged } from './order.ts';
import { type Fields, isObject, isOverride, parseRecorded } from './readers/request-line.ts';
import type { RecordingNotes } from './recording-notes.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';
import { readRequests, type TrafficCounts, type TrafficReader } from './traffic.ts';

/**
 * Opens recordings. The files of one process are read in sequence, and those of several processes are merged by time.
 *
 * @throws UnreadableInput
 */
export async function openRecordings(
  inputs: readonly Input[],
  listener: RecordingListener,
  counts: TrafficCounts,
): Promise<RecordedTraffic> {
  const [only] = inputs;
  if (only && inputs.length === 1) return readRequests(only, new RecordingReader(listener), counts);
  const streams = new Map<string, { readonly input: Input; readonly part: number }[]>();
  for (const [at, input] of inputs.entries()) {
    const header = input.bytes === undefined ? undefined : await readFirstHeader(input);
    const { stream = OTHERS, part = at } = header ?? {};
    streams.set(stream, [...(streams.get(stream) ?? []), { input, part }]);
  }
  return merged(
    Array.from(streams.values(), (files) => {
      const reader = new RecordingReader(listener);
      const inOrder = files.toSorted((one, other) => one.part - other.part);
      return chained(inOrder.map(({ input }) => readRequests(input, reader, counts)));
    }),
  );
}

/** Concatenates recordings. */
async function* chained(all: readonly RecordedTraffic[]): RecordedTraffic {
  for (const one of all) yield* one;
}

/** Name of the group of files without a header. */
const OTHERS = '-';

async function readFirstHeader(input: Input) {
  for await (const [line = ''] of readLines(input)) return parseHeader(line);
  return undefined;
}

/** Receives the information in a recording besides requests. */
type RecordingListener = Pick<RecordingNotes, 'onSettings' | 'onSample' | 'onDropped' | 'onRules'>;

/** Reads Weir's recordings, and lines that are bodies of `/json` with a `time`. */
export class RecordingReader implements TrafficReader {
  readonly #listener: RecordingListener;
  /** Overrides to be attached to the next request. */
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
    const recorded = parseRecorded(line);
    if (typeof recorded === 'string') return recorded;
    const overrides = this.#overrides;
    this.#overrides = undefined;
    return overrides ? { ...recorded, overrides } : recorded;
  }

  #readNote(line: Fields): undefined | string {
    const { recording, overrides, dropped, rulesChanged } = line;
    if (isObject(recording)) {
      // in the format of a recording's first line
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
function parseHeader(firstLine: string): RecordingHeader['recording'] | undefined {
  try {
    const value: unknown = JSON.parse(firstLine);
    if (!isObject(value) || !isObject(value.recording)) return undefined;
    return value.recording as unknown as RecordingHeader['recording']; // in the format in which it was written
  } catch {
    return undefined;
  }
}
