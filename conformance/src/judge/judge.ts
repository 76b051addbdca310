import { judgeBucket } from './bucket.ts';
import type { Call, Clocks, Contradiction, Judge } from './call.ts';
import { judgeFixedWindow } from './fixed-window.ts';
import type { History } from './history.ts';
import { judgeInFlight } from './in-flight.ts';
import type { Algorithm, Declaration, Limit } from './limits.ts';
import { judgeSlidingCounter, judgeSlidingLog, largestCrowd } from './sliding.ts';

const judges: Readonly<Record<Algorithm, Judge>> = {
  fixed_window: judgeFixedWindow,
  sliding_window_log: judgeSlidingLog,
  sliding_window_counter: judgeSlidingCounter,
  token_bucket: judgeBucket,
  leaky_bucket: judgeBucket,
  in_flight: judgeInFlight,
};

/** What the history says about one limit. */
export interface Sentence {
  readonly limit: Limit;
  readonly counters: number;
  readonly calls: { passed: number; refused: number; unknown: number };
  /** The most hits that certainly passed within any time of one window; 0 for requests in flight. */
  mostInWindow: number;
  /** How many counters have a contradiction. */
  wrongCounters: number;
  /** The first of them. */
  readonly contradictions: readonly Contradiction[];
}

/** As many contradictions of a limit are shown. */
const SHOWN = 5;

/**
 * Judges a history against what is declared: whether some order of the calls within their intervals, some clocks within
 * the skew, and some outcome of each unknown call explain all answers. Every contradiction is one; a history without
 * any may still be wrong in a way that these arguments do not see (conformance/judge.md says which).
 *
 * @throws Error  the history has a limit that is not declared
 */
export function judgeHistory(history: History, { skewMs, lateMs, limits }: Declaration): readonly Sentence[] {
  const clocks: Clocks = { epochMs: history.epochMs, skewMs, lateMs };
  const trials = new Map(limits.map((limit) => [limit.name, new Trial(limit, clocks)]));
  for (const { limit, key, calls } of history.counters()) {
    const trial = trials.get(limit);
    if (!trial) throw new Error(`the history has calls of the limit '${limit}', which is not declared`);
    trial.add(key, calls);
  }
  return [...trials.values()].map(({ sentence }) => sentence);
}

/** The judgement on one limit, counter by counter. */
class Trial {
  readonly #clocks: Clocks;
  readonly #contradictions: Contradiction[] = [];
  readonly sentence: Sentence & { counters: number };

  constructor(limit: Limit, clocks: Clocks) {
    this.#clocks = clocks;
    const calls = { passed: 0, refused: 0, unknown: 0 };
    const contradictions = this.#contradictions;
    this.sentence = { limit, counters: 0, calls, mostInWindow: 0, wrongCounters: 0, contradictions };
  }

  add(key: string, calls: readonly Call[]): void {
    const { sentence } = this;
    const { limit } = sentence;
    sentence.counters += 1;
    for (const { outcome } of calls) sentence.calls[outcome] += 1;
    if (limit.windowMs > 0)
      sentence.mostInWindow = Math.max(sentence.mostInWindow, largestCrowd(calls, limit, this.#clocks).hits);
    const found = judges[limit.algorithm](calls, limit, this.#clocks);
    if (found.length === 0) return;
    sentence.wrongCounters += 1;
    for (const finding of found)
      if (this.#contradictions.length < SHOWN) this.#contradictions.push({ limit: limit.name, key, ...finding });
  }
}
