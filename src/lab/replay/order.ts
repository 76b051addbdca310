import type { RecordedRequest, RecordedTraffic } from './request.ts';
import type { TrafficCounts } from './traffic.ts';

/** Maximum number of requests that wait to be sorted, which bounds the memory for a dense log. */
const MAX_WAITING = 1_000_000;
/** Number of requests passed on together. */
const BATCH_REQUESTS = 1_024;

interface Waiting {
  readonly recorded: RecordedRequest;
  /** Index in the input. */
  readonly at: number;
}

/**
 * Sorts requests by time, and by input order within the same time, if they are at most `windowMs` behind the newest
 * one. A later request is counted, and passed on with the time reached so far.
 */
export async function* inOrder(traffic: RecordedTraffic, windowMs: number, counts: TrafficCounts): RecordedTraffic {
  const waiting = new RequestHeap();
  let newestMs = Number.NEGATIVE_INFINITY;
  let reachedMs = Number.NEGATIVE_INFINITY;
  let at = 0;
  let batch: RecordedRequest[] = [];
  const passOn = (recorded: RecordedRequest): void => {
    if (recorded.timeMs >= reachedMs) {
      reachedMs = recorded.timeMs;
      batch.push(recorded);
      return;
    }
    counts.late++;
    batch.push({ ...recorded, timeMs: reachedMs });
  };
  for await (const requests of traffic) {
    for (const recorded of requests) {
      newestMs = Math.max(newestMs, recorded.timeMs);
      waiting.add({ recorded, at: at++ });
      while (waiting.first && (waiting.first.recorded.timeMs < newestMs - windowMs || waiting.size > MAX_WAITING))
        passOn(waiting.take().recorded);
      if (batch.length < BATCH_REQUESTS) continue;
      yield batch;
      batch = [];
    }
  }
  while (waiting.first) {
    passOn(waiting.take().recorded);
    if (batch.length < BATCH_REQUESTS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** A binary heap with the earliest request first. */
class RequestHeap {
  readonly #items: Waiting[] = [];

  get size(): number {
    return this.#items.length;
  }

  get first(): Waiting | undefined {
    return this.#items[0];
  }

  add(item: Waiting): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent] as Waiting; // below its length
      if (!isBefore(item, above)) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  /** Removes the first item, which must exist. */
  take(): Waiting {
    const items = this.#items;
    const first = items[0] as Waiting; // the caller ensures that there is one
    const last = items.pop() as Waiting;
    if (items.length > 0) this.#sink(last);
    return first;
  }

  /** Replaces the first item, and sinks the new one into place. */
  #sink(item: Waiting): void {
    const items = this.#items;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const right = items[child + 1];
      if (right && isBefore(right, items[child] as Waiting)) child++; // if there is a right child, there is a left one
      const below = items[child];
      if (!below || !isBefore(below, item)) break;
      items[at] = below;
      at = child;
    }
    items[at] = item;
  }
}

const isBefore = (one: Waiting, other: Waiting): boolean =>
  one.recorded.timeMs < other.recorded.timeMs || (one.recorded.timeMs === other.recorded.timeMs && one.at < other.at);

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
