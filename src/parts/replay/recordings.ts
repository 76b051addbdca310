import { groupBy } from '../../base/group.ts';
import { parseObject } from '../../base/json.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { RecordingHeader } from '../lab/record/format.ts';
import { type Input, type LineReader, readLines, readRequests, type TrafficCounts } from './input.ts';
import { merged } from './order.ts';
import { type Fields, isObject, isOverride, parseRecorded } from './readers/request-line.ts';
import type { RecordingNotes } from './recording-notes.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';

/**
 * Opens recordings. The files of one process are read in sequence, and those of several processes are merged by time.
 *
 * @throws CommandFailed if one cannot be read
 */
export async function openRecordings(
  inputs: readonly Input[],
  listener: RecordingListener,
  counts: TrafficCounts,
): Promise<RecordedTraffic> {
  const [only] = inputs;
  if (only && inputs.length === 1) return readRequests(only, readRecording(listener), counts);
  const files: { readonly input: Input; readonly stream: string; readonly part: number }[] = [];
  for (const [at, input] of inputs.entries()) {
    const { stream = OTHERS, part = at } = (input.bytes === undefined ? undefined : await readHeader(input)) ?? {};
    files.push({ input, stream, part });
  }
  return merged(
    Array.from(groupBy(files, ({ stream }) => stream).values(), (parts) => {
      const read = readRecording(listener);
      const inOrder = parts.toSorted((one, other) => one.part - other.part);
      return chained(inOrder.map(({ input }) => readRequests(input, read, counts)));
    }),
  );
}

/** Concatenates recordings. */
async function* chained(all: readonly RecordedTraffic[]): RecordedTraffic {
  for (const one of all) yield* one;
}

/** Name of the group of files without a header. */
const OTHERS = '-';

/** Receives the information in a recording besides requests. */
type RecordingListener = Pick<RecordingNotes, 'onSettings' | 'onSample' | 'onDropped' | 'onRules'>;

/** Opens a reader of Weir's recordings, and of lines that are bodies of `/json` with a `time`. */
export function readRecording(listener: RecordingListener): LineReader {
  /** Overrides to be attached to the next request. */
  let overrides: readonly StandingOverride[] | undefined;

  function readLine(line: string): RecordedRequest | string | undefined {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (error) {
      return `not JSON: ${error instanceof Error ? error.message : error}`;
    }
    if (!isObject(value)) return 'expected a JSON object';
    if (!('descriptors' in value || 'domain' in value)) return readNote(value);
    const recorded = parseRecorded(value);
    if (typeof recorded === 'string' || !overrides) return recorded;
    const changed = { ...recorded, overrides };
    overrides = undefined;
    return changed;
  }

  function readNote({ recording, overrides: changed, dropped, rulesChanged }: Fields): undefined | string {
    if (isObject(recording)) {
      const { settings, sample, rules } = recording as unknown as Header; // the format of a first line
      if (typeof rules === 'string') listener.onRules(rules);
      if (isObject(settings)) listener.onSettings(settings);
      if (typeof sample === 'number') listener.onSample(sample);
    } else if (Array.isArray(changed)) {
      if (!changed.every(isOverride)) return 'overrides must be in the format of a recording';
      overrides = changed;
    } else if (typeof dropped === 'number') listener.onDropped(dropped);
    else if (isObject(rulesChanged) && typeof rulesChanged.digest === 'string') listener.onRules(rulesChanged.digest);
    else return 'expected a request with domain and descriptors';
    return undefined;
  }

  return (lines) => lines.map((line) => (line === '' ? undefined : readLine(line)));
}

type Header = RecordingHeader['recording'];

/** The header of a file, if its first line is one. */
async function readHeader(input: Input): Promise<Header | undefined> {
  for await (const [line = ''] of readLines(input)) {
    const value = parseObject(line);
    return isObject(value) && isObject(value.recording) ? (value.recording as unknown as Header) : undefined; // as written
  }
  return undefined;
}
