import { type Input, type LineReader, readLines, readRequests, type TrafficCounts } from './input.ts';
import { LogSample } from './mapping/learn.ts';
import type { Mapping } from './mapping/mapping.ts';
import { inOrder, merged } from './order.ts';
import type { LogFields } from './readers/fields.ts';
import type { LogFormatName } from './readers/format-names.ts';
import { openLineParser, recognizeFormat } from './readers/formats.ts';
import type { RecordedTraffic } from './request.ts';

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
  const traffic = inputs.map((input) => {
    const parser = new LogParser(format);
    const read: LineReader = (lines) =>
      parser.parse(lines).map((parsed) => {
        if (typeof parsed !== 'object') return parsed;
        const request = mapping.request(parsed);
        if (request === undefined) counts.unmapped++;
        return request;
      });
    return inOrder(readRequests(input, read, counts), reorderMs, counts);
  });
  return merged(traffic);
}

/** Maximum number of requests from which a mapping is learned. */
const MAX_LEARNED = 100_000;

/** Creates a first mapping for an access log, as the text of its file; undefined if no line of the log can be read. */
export async function learnMapping(input: Input, format: LogFormatName | undefined): Promise<string | undefined> {
  const parser = new LogParser(format);
  const sample = new LogSample();
  for await (const lines of readLines(input)) {
    for (const fields of parser.parse(lines)) if (typeof fields === 'object') sample.add(fields);
    if (sample.lines >= MAX_LEARNED) break;
  }
  return parser.format === undefined || sample.lines === 0 ? undefined : sample.mapping(input.name, parser.format);
}

/** Parses by a given format, or by that of the first line that matches one. */
class LogParser {
  #parse: LineReader<LogFields> | undefined;
  /** Undefined until a line has matched a format. */
  format: LogFormatName | undefined;

  constructor(format: LogFormatName | undefined) {
    this.format = format;
  }

  parse(lines: readonly string[]): ReturnType<LineReader<LogFields>> {
    let from = 0;
    while (this.format === undefined && from < lines.length) {
      this.format = recognizeFormat(lines[from] ?? '');
      if (this.format === undefined) from++;
    }
    if (this.format === undefined) return lines.map(unknown);
    this.#parse ??= openLineParser(this.format);
    return [...lines.slice(0, from).map(unknown), ...this.#parse(lines.slice(from))];
  }
}

const unknown = (line: string) => (line === '' ? undefined : 'unknown log format: name it with --format');
