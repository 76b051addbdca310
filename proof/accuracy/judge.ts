import type { State } from '../../src/engine/algorithms/limit.ts';
import { algorithmFor, type Limit } from '../../src/engine/holds/limits.ts';

/** How an algorithm's decisions compare with those of an exact log of the same limit. */
export interface Judgement {
  readonly decisions: number;
  /** Requests that it admitted and the log refused. */
  readonly wronglyAdmitted: number;
  /** Requests that it refused and the log admitted. */
  readonly wronglyRefused: number;
  /** Maximum number of requests that it admitted in any window of the limit's length. */
  readonly worst: number;
  readonly sources: number;
  /** Sources of which the log refused nothing. */
  readonly innocent: number;
  /** Innocent sources of which it refused a request. */
  readonly innocentRefused: number;
  /**
   * Mean of |count − true count| / true count, over admitted requests after at least one other: the count that the
   * algorithm compares with the limit, and the number that it admitted in the window before.
   */
  readonly meanError: number;
}

/** The number of times in a window of the past, for times that only increase. */
class ExactCount {
  readonly #times: number[] = [];
  readonly #windowMs: number;
  #first = 0;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  at(nowMs: number): number {
    while ((this.#times[this.#first] ?? Number.POSITIVE_INFINITY) <= nowMs - this.#windowMs) this.#first++;
    return this.#times.length - this.#first;
  }

  add(nowMs: number): void {
    this.#times.push(nowMs);
  }
}

/** Runs the arrivals of each source on a counter of its own, and beside it an exact log. */
export function judge(limit: Limit, sources: readonly (readonly number[])[]): Judgement {
  const { step, describe } = algorithmFor(limit);
  const { requestsPerUnit, windowMs } = limit;
  let [decisions, wronglyAdmitted, wronglyRefused, worst, innocent, innocentRefused] = [0, 0, 0, 0, 0, 0];
  let [errors, compared] = [0, 0];
  for (const times of sources) {
    const log = new ExactCount(windowMs);
    const admitted = new ExactCount(windowMs);
    let state: State | undefined;
    let [refusedByLog, refused] = [0, 0];
    for (const atMs of times) {
      const next = step(limit, state, atMs, 1, true);
      state = next.state;
      const { accepted, report = state } = next;
      const isRight = log.at(atMs) < requestsPerUnit;
      if (isRight) log.add(atMs);
      else refusedByLog++;
      if (accepted !== isRight) accepted ? wronglyAdmitted++ : wronglyRefused++;
      if (!accepted) {
        refused++;
        continue;
      }
      const trueCount = admitted.at(atMs);
      const { hitsBefore } = describe(limit, report, atMs, { hits: 1, accepted, charged: true });
      if (trueCount > 0) {
        errors += Math.abs(hitsBefore - trueCount) / trueCount;
        compared++;
      }
      admitted.add(atMs);
      worst = Math.max(worst, trueCount + 1);
    }
    decisions += times.length;
    if (refusedByLog > 0) continue;
    innocent++;
    if (refused > 0) innocentRefused++;
  }
  const counts = { decisions, wronglyAdmitted, wronglyRefused, worst };
  return { ...counts, sources: sources.length, innocent, innocentRefused, meanError: errors / Math.max(compared, 1) };
}
