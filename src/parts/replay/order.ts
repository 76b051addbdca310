import type { TrafficCounts } from './input.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';

/** Maximum number of requests that wait to be sorted, which bounds the memory for a dense log. */
const MAX_WAITING = 1_000_000;
/** Number of requests passed on together. */
const BATCH_REQUESTS = 1_024;

/**
 * Sorts requests by time, and by input order within the same time, if they are at most `windowMs` behind the newest
 * one. A later request is counted, and passed on with the time reached so far.
 */
export async function* inOrder(traffic: RecordedTraffic, windowMs: number, counts: TrafficCounts): RecordedTraffic {
  /** The requests that may still be preceded by others, in order; before `next`, those that were passed on. */
  const waiting: RecordedRequest[] = [];
  let next = 0;
  let newestMs = Number.NEGATIVE_INFINITY;
  let reachedMs = Number.NEGATIVE_INFINITY;
  const isDue = ({ timeMs }: RecordedRequest): boolean =>
    timeMs < newestMs - windowMs || waiting.length - next > MAX_WAITING;
  for await (const requests of traffic) {
    const batch: RecordedRequest[] = [];
    for (const recorded of requests) {
      const { timeMs } = recorded;
      if (timeMs < reachedMs) {
        counts.late++;
        batch.push({ ...recorded, timeMs: reachedMs });
        continue;
      }
      newestMs = Math.max(newestMs, timeMs);
      waiting.splice(waiting.findLastIndex((one) => one.timeMs <= timeMs) + 1, 0, recorded); // near the end
      for (let first = waiting[next]; first && isDue(first); first = waiting[++next]) {
        reachedMs = first.timeMs;
        batch.push(first);
      }
    }
    waiting.splice(0, next);
    next = 0;
    if (batch.length > 0) yield batch;
  }
  for (let from = 0; from < waiting.length; from += BATCH_REQUESTS) yield waiting.slice(from, from + BATCH_REQUESTS);
}

/** Merges recordings by time, keeping the order of each. */
export async function* merged(all: readonly RecordedTraffic[]): RecordedTraffic {
  if (all.length <= 1) {
    for (const one of all) yield* one;
    return;
  }
  const cursors: Cursor[] = [];
  for (const traffic of all) {
    const cursor = new Cursor(traffic);
    if (await cursor.fill()) cursors.push(cursor);
  }
  while (cursors.length > 0) {
    let batch: RecordedRequest[] = [];
    while (batch.length < BATCH_REQUESTS && cursors.length > 0) {
      const next = cursors.reduce((one, other) => (other.timeMs < one.timeMs ? other : one));
      batch.push(next.take());
      if (next.isEmpty && !(await next.fill())) cursors.splice(cursors.indexOf(next), 1);
    }
    yield batch;
    batch = [];
  }
}

/** A position in one of several recordings. */
class Cursor {
  readonly #batches: AsyncIterator<readonly RecordedRequest[]>;
  #batch: readonly RecordedRequest[] = [];
  #at = 0;
  #latestMs = Number.NEGATIVE_INFINITY;

  constructor(traffic: RecordedTraffic) {
    this.#batches = traffic[Symbol.asyncIterator]();
  }

  get isEmpty(): boolean {
    return this.#at >= this.#batch.length;
  }

  /**
   * Time of the next request, but not below previous ones, so that a clock that was set back delays no other recording.
   */
  get timeMs(): number {
    return Math.max(this.#latestMs, this.#batch[this.#at]?.timeMs ?? this.#latestMs);
  }

  /** Reads the next batch, or returns false without one. */
  async fill(): Promise<boolean> {
    const { done, value } = await this.#batches.next();
    if (done) return false;
    this.#batch = value;
    this.#at = 0;
    return !this.isEmpty || this.fill();
  }

  take(): RecordedRequest {
    this.#latestMs = this.timeMs;
    return this.#batch[this.#at++] as RecordedRequest; // the caller keeps it filled
  }
}
