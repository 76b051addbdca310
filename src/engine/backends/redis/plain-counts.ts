import type { State } from '../../algorithms/limit.ts';
import { isClaim } from '../../holds/claim.ts';
import { algorithmFor } from '../../holds/limits.ts';
import { type Operation, type Replies, type Reply, signedHits, type Unavailable } from '../backend.ts';
import { stepAll } from '../steps.ts';
import type { BatchRequest } from './batch.ts';
import { withTime } from './batch-reply.ts';
import type { WindowCounts } from './window-counts.ts';

/**
 * Counts fixed windows where no script can run: one operation after another, by commands on single keys, which proxies
 * send to the server of the key. The limits of a request are not one step: `spend` has no effect here.
 */
export class PlainCounts {
  readonly #windows: WindowCounts;
  readonly #needsMore: (operation: Operation) => string | undefined;

  /** @param needsMore  what else needs a script for an operation */
  constructor(windows: WindowCounts, needsMore: (operation: Operation) => string | undefined) {
    this.#windows = windows;
    this.#needsMore = needsMore;
  }

  /**
   * @param fail  the reply to an operation that needs a script, which is named
   * @throws  the error of a call that may have run
   */
  async run(
    requests: readonly BatchRequest[],
    slot: number,
    fail: (what: string | Error, operation: Operation) => Unavailable,
  ): Promise<{ readonly nowMs: number; readonly replies: readonly Replies[] }> {
    const all = requests.flatMap(({ operations }) => operations);
    const changes = all.filter((operation) => !this.#needs(operation)).map(changeOf);
    const { nowMs, befores } = await this.#windows.count(changes, slot, false);
    let at = 0;
    const reply = (operation: Operation): Reply => {
      const needs = this.#needs(operation);
      if (needs !== undefined) return fail(needs, operation);
      const before = befores[at++] as State | Error; // one for each
      if (before instanceof Error) return fail(before, operation);
      return stepAll([operation], before, { nowMs, resetAtMs: 0 }).decisions[0] as Reply; // one for each
    };
    const replies = requests.map(({ operations, receipts }) =>
      operations.map((operation) => (receipts ? withTime(reply(operation), nowMs) : reply(operation))),
    );
    return { nowMs, replies };
  }

  /** What needs a script, if anything. */
  #needs(operation: Operation): string | undefined {
    const { limit, kind } = operation;
    if (isClaim(operation) || !algorithmFor(limit).startBefore) return limit.algorithm;
    return kind === 'refund' ? 'a refund' : this.#needsMore(operation);
  }
}

function changeOf(operation: Operation) {
  const { key, limit, kind } = operation;
  const instead = kind === 'peek' ? 'read' : kind === 'forget' ? 'reset' : undefined;
  return { key, limit, hits: instead ? 0 : signedHits(operation), instead } as const;
}
