import type { State } from '../../algorithms/limit.ts';
import { isClaim } from '../../holds/claim.ts';
import { algorithmFor } from '../../holds/limits.ts';
import { type Operation, type Replies, type Reply, signedHits, type Unavailable } from '../backend.ts';
import { stepAll } from '../steps.ts';
import type { BatchRequest } from './batch.ts';
import { withTime } from './batch-reply.ts';
import type { WindowCounts } from './window-counts.ts';

interface PlainOptions {
  /** What needs a script for an operation, even on a fixed window. */
  readonly needsScript: (operation: Operation) => string | undefined;
  /** The reply to an operation that needs a script, which is named. */
  readonly unsupported: (what: string, operation: Operation) => Unavailable;
  /** The reply to an operation that Redis refused. */
  readonly failed: (error: Error) => Unavailable;
}

/**
 * Counts fixed windows where no script can run: one operation after another, by commands on single keys, which proxies
 * send to the server of the key. The limits of a request are not one step: `spend` has no effect here.
 *
 * @throws  the error of a call that may have run
 */
export async function countPlainly(
  windows: WindowCounts,
  requests: readonly BatchRequest[],
  slot: number,
  { needsScript, unsupported, failed }: PlainOptions,
): Promise<{ readonly nowMs: number; readonly replies: readonly Replies[] }> {
  const needs = (operation: Operation): string | undefined => {
    const { limit, kind } = operation;
    if (isClaim(operation) || !algorithmFor(limit).startBefore) return limit.algorithm;
    return kind === 'refund' ? 'a refund' : needsScript(operation);
  };
  const all = requests.flatMap(({ operations }) => operations);
  const changes = all.filter((operation) => needs(operation) === undefined).map(changeOf);
  const { nowMs, befores } = await windows.count(changes, slot, false);
  let at = 0;
  const reply = (operation: Operation): Reply => {
    const needed = needs(operation);
    if (needed !== undefined) return unsupported(needed, operation);
    const before = befores[at++] as State | Error; // one for each
    if (before instanceof Error) return failed(before);
    return stepAll([operation], before, { nowMs, resetAtMs: 0 }).decisions[0] as Reply; // one for each
  };
  const replies = requests.map(({ operations, receipts }) =>
    operations.map((operation) => (receipts ? withTime(reply(operation), nowMs) : reply(operation))),
  );
  return { nowMs, replies };
}

function changeOf(operation: Operation) {
  const { key, limit, kind } = operation;
  const instead = kind === 'peek' ? 'read' : kind === 'forget' ? 'reset' : undefined;
  return { key, limit, hits: instead ? 0 : signedHits(operation), instead } as const;
}
