import { chunksOf, type Input, STANDARD_INPUT } from './input.ts';
import { merged } from './order.ts';
import { linesOf } from './readers/lines.ts';
import { headerOf, type RecordingListener, RecordingReader } from './readers/recording.ts';
import type { RecordedTraffic } from './request.ts';
import { chained, requestsOf, type TrafficCounts } from './traffic.ts';

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
