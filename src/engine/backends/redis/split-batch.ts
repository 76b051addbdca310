import type { State } from '../../algorithms/limit.ts';
import type { Limit } from '../../holds/limits.ts';
import type { Operation, Replies, Reply, Unavailable } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import type { BatchRequest } from './batch.ts';
import { stepFrom, withTime } from './batch-reply.ts';

/** A spend of a batch, by its request and its place in it. */
interface Spent {
  readonly operation: Operation;
  readonly request: number;
  readonly place: number;
}

/** Spends on one counter that plain commands count, in their order. */
export interface CountedWindow {
  readonly key: CounterKey;
  readonly limit: Limit;
  /** All hits, which are added at once. */
  hits: number;
  readonly spends: Spent[];
}

/** Operations of a request that are left to the script. */
export interface Rest {
  readonly number: number;
  readonly places: readonly number[];
  readonly request: BatchRequest;
}

/** A batch, divided into what plain commands can count and the rest. */
export interface SplitBatch {
  readonly windows: readonly CountedWindow[];
  readonly rest: readonly Rest[];
}

/**
 * The order on each counter is kept, since the script runs last.
 *
 * @param isPlain  see `WindowCounts.isPlain`
 * @returns  undefined if plain commands would have to count no window, or more than `mostWindows`
 */
export function splitBatch(
  requests: readonly BatchRequest[],
  mostWindows: number,
  isPlain: (one: Operation) => boolean,
): SplitBatch | undefined {
  const windows = new Map<CounterKey, CountedWindow>();
  const rest: Rest[] = [];
  const inRest = new Set<CounterKey>();
  for (const [number, request] of requests.entries()) {
    const places: number[] = [];
    for (const [place, operation] of request.operations.entries()) {
      const { key, limit, hits } = operation;
      if (request.spend !== 'each' || inRest.has(key) || !isPlain(operation)) {
        inRest.add(key);
        places.push(place);
        continue;
      }
      const known = windows.get(key);
      const spent = { operation, request: number, place };
      if (!known) {
        if (windows.size === mostWindows) return undefined;
        windows.set(key, { key, limit, hits, spends: [spent] });
      } else {
        known.hits += hits;
        known.spends.push(spent);
      }
    }
    if (places.length > 0) rest.push({ number, places, request: selectFrom(request, places) });
  }
  return windows.size > 0 ? { windows: [...windows.values()], rest } : undefined;
}

/** The spends on a window that Redis refused to count, each for the script, which answers or has the reason. */
export const spendsAlone = (requests: readonly BatchRequest[], { spends }: CountedWindow): readonly Rest[] =>
  spends.map(({ operation, request, place }) => {
    const receipts = requests[request]?.receipts;
    return { number: request, places: [place], request: { operations: [operation], spend: 'each', receipts } };
  });

function selectFrom(request: BatchRequest, places: readonly number[]): BatchRequest {
  const { operations, spend, receipts } = request;
  if (places.length === operations.length) return request;
  return { operations: operations.filter((_, place) => places.includes(place)), spend, receipts };
}

/** Puts the replies of a divided batch in the order of its requests. */
export class JoinedReplies {
  readonly #requests: readonly BatchRequest[];
  readonly replies: Reply[][];

  constructor(requests: readonly BatchRequest[]) {
    this.#requests = requests;
    this.replies = requests.map(({ operations }) => new Array<Reply>(operations.length));
  }

  /** Repeats the steps of the spends from the state before them. */
  addWindow({ spends }: CountedWindow, before: State, nowMs: number): void {
    let state = before;
    for (const { operation, request, place } of spends) {
      const next = stepFrom(operation.limit, operation.hits, operation, { state, nowMs });
      const { reply } = next;
      state = next.state;
      this.#put(request, place, this.#requests[request]?.receipts ? withTime(reply, nowMs) : reply);
    }
  }

  addFailure({ spends }: CountedWindow, fail: () => Unavailable): void {
    for (const { request, place } of spends) this.#put(request, place, fail());
  }

  addRest(rest: readonly Rest[], replies: readonly Replies[]): void {
    for (const [at, { number, places }] of rest.entries())
      for (const [own, place] of places.entries()) this.#put(number, place, replies[at]?.[own] as Reply); // one for each
  }

  #put(request: number, place: number, reply: Reply): void {
    (this.replies[request] as Reply[])[place] = reply; // a request of the batch
  }
}
