import type { State } from '../../algorithms/limit.ts';
import type { Limit } from '../../holds/limits.ts';
import type { Operation, Replies, Reply } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import type { BatchRequest } from './batch.ts';
import { stepFrom, withTime } from './batch-reply.ts';

/** A spend of a batch, by its request and its place in it. */
interface Spent {
  readonly operation: Operation;
  readonly request: number;
  readonly place: number;
}

/** Spends on one counter, in their order. */
export interface CountedWindow {
  readonly key: CounterKey;
  readonly limit: Limit;
  /** All hits, which are added at once. */
  hits: number;
  readonly spends: Spent[];
}

/**
 * The windows of a batch that only spends on windows.
 *
 * @param isPlain  see `WindowCounts.isPlain`
 * @returns  undefined if the batch has something else, or more than `most` windows
 */
export function listWindows(
  requests: readonly BatchRequest[],
  most: number,
  isPlain: (one: Operation) => boolean,
): readonly CountedWindow[] | undefined {
  const windows = new Map<CounterKey, CountedWindow>();
  for (const [request, { operations, spend }] of requests.entries()) {
    for (const [place, operation] of operations.entries()) {
      const { key, limit, hits } = operation;
      if (spend !== 'each' || !isPlain(operation)) return undefined;
      const known = windows.get(key);
      if (known) {
        known.hits += hits;
        known.spends.push({ operation, request, place });
      } else if (windows.size === most) return undefined;
      else windows.set(key, { key, limit, hits, spends: [{ operation, request, place }] });
    }
  }
  return windows.size > 0 ? [...windows.values()] : undefined;
}

/**
 * The replies to a batch from the states of its windows before it, by repeating the steps.
 *
 * @param befores  for each window; an error if it was not counted
 * @param recount  counts spends that were not, because of this error, in order
 */
export async function replyFrom(
  requests: readonly BatchRequest[],
  windows: readonly CountedWindow[],
  { befores, nowMs }: { readonly befores: readonly (State | Error)[]; readonly nowMs: number },
  recount: (alone: readonly BatchRequest[], error: Error) => Promise<readonly Replies[]>,
): Promise<readonly Replies[]> {
  const replies = requests.map(({ operations }) => new Array<Reply>(operations.length));
  const put = ({ request, place }: Spent, reply: Reply): void => {
    (replies[request] as Reply[])[place] = reply; // a request of the batch
  };
  for (const [at, { spends }] of windows.entries()) {
    let state = befores[at] as State | Error; // one for each window
    if (state instanceof Error) {
      const alone = spends.map(({ operation, request }): BatchRequest => {
        const receipts = requests[request]?.receipts;
        return { operations: [operation], spend: 'each', receipts };
      });
      const counted = await recount(alone, state);
      for (const [one, spent] of spends.entries()) put(spent, counted[one]?.[0] as Reply); // one for each
      continue;
    }
    for (const spent of spends) {
      const { operation, request } = spent;
      const next = stepFrom(operation, state, nowMs);
      state = next.state;
      put(spent, requests[request]?.receipts ? withTime(next.reply, nowMs) : next.reply);
    }
  }
  return replies;
}
