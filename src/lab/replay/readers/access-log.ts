import type { Mapping } from '../mapping/mapping.ts';
import type { RecordedRequest } from '../request.ts';
import type { TrafficReader } from '../traffic.ts';
import type { LogFormatName } from './format-names.ts';
import { openLineParser, recognizeFormat } from './formats.ts';
import type { LineParser, ParsedLine } from './line-parser.ts';

interface AccessLogOptions {
  readonly mapping: Pick<Mapping, 'request'>;
  /** Undefined: the format of the first line that matches one. */
  readonly format: LogFormatName | undefined;
  /** Called for a request without descriptors, for which the proxy would not have called the service. */
  onUnmapped(): void;
}

/** Reads the lines of an access log. */
export class AccessLogReader implements TrafficReader {
  readonly #options: AccessLogOptions;
  readonly #parser: LineParser;

  constructor(options: AccessLogOptions) {
    this.#options = options;
    this.#parser = options.format === undefined ? new RecognizingParser() : openLineParser(options.format);
  }

  read(lines: readonly string[]): readonly (RecordedRequest | string | undefined)[] {
    return this.#parser.parse(lines).map((parsed) => this.#requestOf(parsed));
  }

  #requestOf(parsed: ParsedLine): RecordedRequest | string | undefined {
    if (parsed === undefined || typeof parsed === 'string') return parsed;
    const request = this.#options.mapping.request(parsed);
    if (request === undefined) this.#options.onUnmapped();
    return request;
  }
}

/** Parses by the format of the first line that matches one. */
export class RecognizingParser implements LineParser {
  #parser: LineParser | undefined;
  #format: LogFormatName | undefined;

  /** Undefined: no line has matched any format yet. */
  get format(): LogFormatName | undefined {
    return this.#format;
  }

  parse(lines: readonly string[]): readonly ParsedLine[] {
    if (this.#parser) return this.#parser.parse(lines);
    for (const [at, line] of lines.entries()) {
      const format = recognizeFormat(line);
      if (format === undefined) continue;
      this.#format = format;
      this.#parser = openLineParser(format);
      return [...lines.slice(0, at).map(unknown), ...this.#parser.parse(lines.slice(at))];
    }
    return lines.map(unknown);
  }
}

const unknown = (line: string): ParsedLine =>
  line === '' ? undefined : 'unknown format: name it with --format, if it is one of these';
