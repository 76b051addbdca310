import type { State } from '../../engine/algorithms/limit.ts';
import { type Operation, type Replies, type Reply, signedHits } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { stepAll, stepOne } from '../../engine/backends/steps.ts';
import { isClaim } from '../../engine/holds/claim.ts';
import { algorithmFor } from '../../engine/holds/limits.ts';
import type { BatchRequest } from './batch.ts';
import { withTime } from './batch-reply.ts';
import type { Change, Counted } from './window-counts.ts';

/** An operation of a batch, by its request and its place in it. */
interface Placed {
  readonly operation: Operation;
  readonly request: number;
  readonly place: number;
}

/** A change of a counter, and what it counts: spends in their order, or one operation. */
interface CountedWindow extends Change {
  /** All hits, which are added at once. */
  hits: number;
  readonly operations: Placed[];
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
        known.operations.push({ operation, request, place });
      } else if (windows.size === most) return undefined;
      else windows.set(key, { key, limit, hits, operations: [{ operation, request, place }] });
    }
  }
  return windows.size > 0 ? [...windows.values()] : undefined;
}

/**
 * The operations of a batch where no script can run, one after another, by commands on single keys, which proxies send
 * to the server of the key. The limits of a request are not one step: `spend` has no effect here.
 *
 * @param needsScript  leaves an operation out
 */
export const listChanges = (
  requests: readonly BatchRequest[],
  needsScript: (one: Operation) => string | undefined,
): readonly CountedWindow[] =>
  requests.flatMap(({ operations }, request) =>
    operations.flatMap((operation, place) =>
      needsScript(operation) === undefined
        ? [{ ...changeOf(operation), operations: [{ operation, request, place }] }]
        : [],
    ),
  );

function changeOf(operation: Operation): Change {
  const { key, limit, kind } = operation;
  const instead = kind === 'peek' ? 'read' : kind === 'forget' ? 'reset' : undefined;
  return { key, limit, hits: instead ? 0 : signedHits(operation), instead };
}

/** What only a script can count; undefined for operations on fixed windows. */
export function findUnplain(operation: Operation): string | undefined {
  const { limit, kind } = operation;
  if (isClaim(operation) || !algorithmFor(limit).startBefore) return limit.algorithm;
  return kind === 'refund' ? 'a refund' : undefined;
}

/**
 * The replies to a batch from the states of its windows before it, by repeating the steps. None to an operation that is
 * in no window.
 *
 * @param recount  counts operations that were not, because of this error, in order
 */
export async function replyFrom(
  requests: readonly BatchRequest[],
  windows: readonly CountedWindow[],
  { befores, nowMs }: Counted,
  recount: (alone: readonly BatchRequest[], error: Error) => Promise<readonly Replies[]>,
): Promise<readonly Replies[]> {
  const replies = requests.map(({ operations }) => new Array<Reply>(operations.length));
  const put = ({ request, place }: Placed, reply: Reply): void => {
    (replies[request] as Reply[])[place] = reply; // a request of the batch
  };
  for (const [at, { operations }] of windows.entries()) {
    let state = befores[at] as State | Error; // one for each window
    if (state instanceof Error) {
      const alone = operations.map(({ operation, request }): BatchRequest => {
        const receipts = requests[request]?.receipts;
        return { operations: [operation], spend: 'each', receipts };
      });
      const counted = await recount(alone, state);
      for (const [one, placed] of operations.entries()) put(placed, counted[one]?.[0] as Reply); // one for each
      continue;
    }
    for (const placed of operations) {
      const { operation, request } = placed;
      const { state: after, decision } = run(operation, state, nowMs);
      state = after;
      put(placed, requests[request]?.receipts ? withTime(decision, nowMs) : decision);
    }
  }
  return replies;
}

/** The state after an operation; one that is no spend is the last on its counter. */
function run(operation: Operation, state: State, nowMs: number): { readonly state: State; readonly decision: Reply } {
  if (operation.kind === 'spend') return stepOne(operation, state, nowMs);
  return { state, decision: stepAll([operation], state, { nowMs, resetAtMs: 0 }).decisions[0] as Reply }; // one for each
}
