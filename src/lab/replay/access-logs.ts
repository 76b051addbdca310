import { chunksOf, type Input } from './input.ts';
import { LogSample } from './mapping/learn.ts';
import type { Mapping } from './mapping/mapping.ts';
import { inOrder, merged } from './order.ts';
import { AccessLogReader, RecognizingParser } from './readers/access-log.ts';
import type { LogFormatName } from './readers/format-names.ts';
import { openLineParser } from './readers/formats.ts';
import { linesOf } from './readers/lines.ts';
import type { RecordedTraffic } from './request.ts';
import { requestsOf, type TrafficCounts } from './traffic.ts';

/** A request is logged when it ends: the longest assumed time since it began. */
export const DEFAULT_REORDER_MS = 60_000;

interface AccessLogsOptions {
  readonly mapping: Mapping;
  readonly format: LogFormatName | undefined;
  readonly reorderMs: number;
}

/** Requests from access logs, ordered by their start time; several files are merged. */
export function openAccessLogs(
  inputs: readonly Input[],
  { mapping, format, reorderMs }: AccessLogsOptions,
  counts: TrafficCounts,
): RecordedTraffic {
  const onUnmapped = (): void => {
    counts.unmapped++;
  };
  const traffic = inputs.map((input) => {
    const reader = new AccessLogReader({ mapping, format, onUnmapped });
    return inOrder(requestsOf(input, reader, counts), reorderMs, counts);
  });
  return merged(traffic);
}

/** The number of requests from which a mapping is learned. */
const MAX_LEARNED = 100_000;

/** A first mapping for an access log, as the text of its file; undefined: no line of the log can be read. */
export async function learnMapping(input: Input, format: LogFormatName | undefined): Promise<string | undefined> {
  const recognizing = new RecognizingParser();
  const parser = format === undefined ? recognizing : openLineParser(format);
  const sample = new LogSample();
  const ignore = (): void => {};
  for await (const lines of linesOf(chunksOf(input, ignore, ignore))) {
    for (const fields of parser.parse(lines)) if (typeof fields === 'object') sample.add(fields);
    if (sample.lines >= MAX_LEARNED) break;
  }
  const found = format ?? recognizing.format;
  return found === undefined || sample.lines === 0 ? undefined : sample.mapping(input.name, found);
}
