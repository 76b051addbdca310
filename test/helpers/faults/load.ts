import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { MAX_WINDOW_MS, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { type Counter, type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { sharedCounters } from '../../../src/engine/backends/shared-counters.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { fixedWindowOf, limitsOfEach } from '../limits.ts';

/** The number of hits that each counter admits; none is restored during a test. */
const HITS = 150;
/** Counters of each kind of limit; those with the same number share a slot of a Cluster. */
const OF_EACH = 4;
const CALLERS = 8;
const PAUSE_MS = 8;
/** The callers' timeouts: mostly that of the store, and a shorter one. */
export const STORE_TIMEOUT_MS = 100;
const TIMEOUTS_MS = [STORE_TIMEOUT_MS, STORE_TIMEOUT_MS, 50];

const sharedLimits: readonly Limit[] = Array.from({ length: 9 }, () =>
  fixedWindowOf(HITS, unitMs.YEAR, { counter: `fixed_window.2|${unitMs.YEAR}` }),
);
const names = sharedCounters({
  ...{ prefix: '', own: createCounterKeys(''), jitterMaxSeconds: 0, clock: Date.now, random: Math.random },
});
const reference = (limit: Limit, tag: string, at: number): Counter =>
  names(limit, tag, [{ key: 'at', value: String(at) }]);

/** The results of the hits on a counter. */
export interface Counted {
  readonly limit: Limit;
  /** Answered OK. */
  admitted: number;
  /** Outcome unknown: they may have been counted. */
  unavailable: number;
}

/** Callers that send requests continuously, and their results. */
export interface Load {
  readonly counters: readonly Counted[];
  readonly calls: number;
  /** Calls without an answer from the counters. */
  readonly failed: number;
  readonly longestMs: number;
  /** When the last failed call ended, by `performance.now()`. */
  readonly lastFailureMs: number;
  /** The distinct reasons of failed calls. */
  readonly reasons: ReadonlySet<string>;
  /** Exceptions of calls; there should be none. */
  readonly thrown: readonly unknown[];
  /** Sends requests until none is admitted any more. */
  drain(): Promise<void>;
  /** Stops sending; resolves when every call has been answered. */
  stop(): Promise<void>;
}

/**
 * Starts several callers that send requests to the store, with two counters a call.
 *
 * @param areShared  the counters have envoyproxy/ratelimit's keys
 */
export function startLoad(store: Pick<Ledger, 'debit'>, { areShared = false } = {}): Load {
  const counterOf = areShared
    ? reference
    : (_: Limit, tag: string, at: number) => ({ key: `${tag}${at}` as CounterKey }); // any name will do
  const counters = (areShared ? sharedLimits : limitsOfEach(HITS, MAX_WINDOW_MS))
    .flatMap((limit) => Array.from({ length: OF_EACH }, (_, number) => ({ limit, number })))
    .map(({ limit, number }, at) => {
      const hit = createDebit(counterOf(limit, `{${number}}`, at), { limit, policy: { onOverload: 'error' } }, 1, true); // a late process would admit more
      return { hit, limit, admitted: 0, unavailable: 0 };
    });
  const load = { calls: 0, failed: 0, longestMs: 0, lastFailureMs: 0 };
  const reasons = new Set<string>();
  const thrown: unknown[] = [];
  let isOver = false;

  const call = async (asked: typeof counters, timeoutMs: number): Promise<boolean> => {
    const startedMs = performance.now();
    load.calls++;
    const ask = async () =>
      store.debit(
        asked.map(({ hit }) => hit),
        { spend: 'each', timeoutMs },
      );
    const answers = await ask().catch((error: unknown) => {
      thrown.push(error);
      return [];
    });
    load.longestMs = Math.max(load.longestMs, performance.now() - startedMs);
    for (const [at, counter] of asked.entries()) {
      const answer = answers[at];
      if (answer?.code === 'OK') counter.admitted++;
      if (answer?.code === 'UNAVAILABLE') {
        counter.unavailable++;
        reasons.add(answer.reason);
      }
    }
    const failed = answers.some(({ code }) => code === 'UNAVAILABLE');
    if (failed) {
      load.failed++;
      load.lastFailureMs = performance.now();
    }
    return answers.some(({ code }) => code !== 'OVER_LIMIT');
  };

  const caller = async (timeoutMs: number, first: number): Promise<void> => {
    for (let at = first; !isOver; at += CALLERS) {
      const pair = [at % counters.length, (at * 5 + 1) % counters.length].map((place) => counters[place]);
      await call(
        pair.flatMap((one) => one ?? []),
        timeoutMs,
      );
      await sleep(PAUSE_MS);
    }
  };
  const callers = Array.from({ length: CALLERS }, (_, at) =>
    caller(TIMEOUTS_MS[at % TIMEOUTS_MS.length] ?? STORE_TIMEOUT_MS, at),
  );
  return Object.assign(load, {
    ...{ counters, reasons, thrown },
    async drain() {
      const drainOne = async (counter: (typeof counters)[number]): Promise<void> => {
        while (await call([counter], STORE_TIMEOUT_MS)) await nextTurn(); // immediate refusals would starve other callers
      };
      await Promise.all(counters.map(drainOne));
    },
    async stop() {
      isOver = true;
      await Promise.all(callers);
    },
  });
}
