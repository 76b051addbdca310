import { type Input, type InputCounts, readLines } from './input.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';

/**
 * Reads the next lines of one file. One result per line: what it says, a text with its error, or undefined if it is not
 * a request.
 */
export type LineReader<T = RecordedRequest> = (lines: readonly string[]) => readonly (T | string | undefined)[];

/** Maximum number of broken lines shown. */
const MAX_SHOWN = 5;

/** Counts the lines and requests of the input. */
export class TrafficCounts implements InputCounts {
  lines = 0;
  broken = 0;
  /** Requests that arrived too late to be sorted by time. */
  late = 0;
  /** Requests for which the proxy would not have called the service, since no action of the mapping has a value. */
  unmapped = 0;
  bytes = 0;
  /** The first broken lines: `access.log:17: expected a JSON object`. */
  readonly examples: string[] = [];
  readonly notes = new Set<string>();

  /** @param what  place and reason */
  addBroken(what: string): void {
    if (++this.broken <= MAX_SHOWN) this.examples.push(what);
  }
}

/** The requests of one input, in the order of its lines. */
export async function* readRequests(input: Input, read: LineReader, counts: TrafficCounts): RecordedTraffic {
  let number = 0;
  for await (const lines of readLines(input, counts)) {
    const batch: RecordedRequest[] = [];
    for (const found of read(lines)) {
      number++;
      if (typeof found === 'string') counts.addBroken(`${input.name}:${number}: ${found}`);
      else if (found) batch.push(found);
    }
    counts.lines += lines.length;
    if (batch.length > 0) yield batch;
  }
}
