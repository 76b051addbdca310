import { type Input, readLines } from './input.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';

/** Reads the lines of one file in order, from the first on. */
export interface TrafficReader {
  /** One result per line, its request, a text with its error, or undefined if the line is not a request. */
  read(lines: readonly string[]): readonly (RecordedRequest | string | undefined)[];
}

/** Maximum number of broken lines shown. */
const MAX_SHOWN = 5;

/** Counts the lines and requests of the input. */
export class TrafficCounts {
  lines = 0;
  broken = 0;
  /** Requests that arrived too late to be sorted by time. */
  late = 0;
  /** Requests for which the proxy would not have called the service, since no action of the mapping has a value. */
  unmapped = 0;
  /** Stored octets that were read. */
  bytes = 0;
  /** The first broken lines: `access.log:17: expected a JSON object`. */
  readonly examples: string[] = [];
  /** Further notes on the input for the operator, without duplicates. */
  readonly notes = new Set<string>();

  /** @param what  place and reason */
  addBroken(what: string): void {
    if (++this.broken <= MAX_SHOWN) this.examples.push(what);
  }
}

/** The requests of one input, in the order of its lines. */
export async function* readRequests(input: Input, reader: TrafficReader, counts: TrafficCounts): RecordedTraffic {
  const listener = {
    onBytes(bytes: number): void {
      counts.bytes += bytes;
    },
    onTruncated(reason: string): void {
      counts.notes.add(`${input.name} is cut off: ${reason}`);
    },
  };
  let number = 0;
  for await (const lines of readLines(input, listener)) {
    const batch: RecordedRequest[] = [];
    for (const found of reader.read(lines)) {
      number++;
      if (typeof found === 'string') counts.addBroken(`${input.name}:${number}: ${found}`);
      else if (found) batch.push(found);
    }
    counts.lines += lines.length;
    if (batch.length > 0) yield batch;
  }
}
