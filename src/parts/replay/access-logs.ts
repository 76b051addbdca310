import { type Input, readLines } from './input.ts';
import { LogSample } from './mapping/learn.ts';
import type { Mapping } from './mapping/mapping.ts';
import { inOrder, merged } from './order.ts';
import type { LogFormatName } from './readers/format-names.ts';
import { type LineParser, openLineParser, type ParsedLine, recognizeFormat } from './readers/formats.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';
import { readRequests, type TrafficCounts } from './traffic.ts';

/** Default assumption for the longest time between a request's start and its log entry, written when it ends. */
export const DEFAULT_REORDER_MS = 60_000;

interface AccessLogsOptions {
  readonly mapping: Pick<Mapping, 'request'>;
  /** Format; undefined to recognize it from the first line that matches one. */
  readonly format: LogFormatName | undefined;
  readonly reorderMs: number;
}

/** Requests from access logs, ordered by their start time; several files are merged. */
export function openAccessLogs(
  inputs: readonly Input[],
  { mapping, format, reorderMs }: AccessLogsOptions,
  counts: TrafficCounts,
): RecordedTraffic {
  const toRequest = (parsed: ParsedLine): RecordedRequest | string | undefined => {
    if (parsed === undefined || typeof parsed === 'string') return parsed;
    const request = mapping.request(parsed);
    if (request === undefined) counts.unmapped++;
    return request;
  };
  const traffic = inputs.map((input) => {
    const parser = format === undefined ? new RecognizingParser() : openLineParser(format);
    const reader = { read: (lines: readonly string[]) => parser.parse(lines).map(toRequest) };
    return inOrder(readRequests(input, reader, counts), reorderMs, counts);
  });
  return merged(traffic);
}

/** Maximum number of requests from which a mapping is learned. */
const MAX_LEARNED = 100_000;

/** Creates a first mapping for an access log, as the text of its file; undefined if no line of the log can be read. */
export async function learnMapping(input: Input, format: LogFormatName | undefined): Promise<string | undefined> {
  const recognizing = new RecognizingParser();
  const parser = format === undefined ? recognizing : openLineParser(format);
  const sample = new LogSample();
  for await (const lines of readLines(input)) {
    for (const fields of parser.parse(lines)) if (typeof fields === 'object') sample.add(fields);
    if (sample.lines >= MAX_LEARNED) break;
  }
  const found = format ?? recognizing.format;
  return found === undefined || sample.lines === 0 ? undefined : sample.mapping(input.name, found);
}

/** Parses by the format of the first line that matches one. */
class RecognizingParser implements LineParser {
  #parser: LineParser | undefined;
  /** Undefined until a line has matched a format. */
  format: LogFormatName | undefined;

  parse(lines: readonly string[]): readonly ParsedLine[] {
    if (this.#parser) return this.#parser.parse(lines);
    for (const [at, line] of lines.entries()) {
      const format = recognizeFormat(line);
      if (format === undefined) continue;
      this.format = format;
      this.#parser = openLineParser(format);
      return [...lines.slice(0, at).map(unknown), ...this.#parser.parse(lines.slice(at))];
    }
    return lines.map(unknown);
  }
}

const unknown = (line: string): ParsedLine => (line === '' ? undefined : 'unknown log format: name it with --format');
