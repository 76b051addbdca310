import type { QuotaEnvoy } from './quota-envoy.ts';
import { eventually } from './until.ts';

/** A request that was admitted between these times, in milliseconds on the monotonic clock. */
export interface PassedRequest {
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

/** Requests to one proxy. */
export interface QuotaLoad {
  readonly passed: readonly PassedRequest[];
  /** When each request was answered, passed or refused, in milliseconds on the monotonic clock. */
  readonly answeredAtMs: readonly number[];
  readonly sent: () => number;
  readonly refused: () => number;
  perSecond: number;
  stop(): Promise<void>;
}

/** Sends requests at a variable rate; requests to a proxy that is down are not counted. */
export function startQuotaLoad(envoy: Pick<QuotaEnvoy, 'passes'>, perSecond: number): QuotaLoad {
  const passed: PassedRequest[] = [];
  const answered: number[] = [];
  let sent = 0;
  let refused = 0;
  let inFlight = 0;
  let due = 0;
  let beforeMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    due = Math.min(due + ((nowMs - beforeMs) * load.perSecond) / 1_000, 50);
    beforeMs = nowMs;
    for (; due >= 1 && inFlight < 60; due--) {
      sent++;
      inFlight++;
      const sentAtMs = performance.now();
      envoy
        .passes()
        .then((isPassed) => {
          const answeredAtMs = performance.now();
          answered.push(answeredAtMs);
          if (isPassed) passed.push({ sentAtMs, answeredAtMs });
          else refused++;
        })
        .catch(() => {})
        .finally(() => inFlight--);
    }
  }, 10);
  const load: QuotaLoad = {
    ...{ passed, answeredAtMs: answered, perSecond, sent: () => sent, refused: () => refused },
    async stop() {
      clearInterval(timer);
      await eventually(() => inFlight === 0);
    },
  };
  return load;
}

/**
 * By how many requests any window of length T exceeds `perSecond` × T + `burst`, at most. Counts only requests both
 * sent and answered in the window: 0 or less means within the bound, even if answers are read late.
 */
export function mostAboveBound(passed: readonly PassedRequest[], perSecond: number, burst: number): number {
  const starts = passed.map(({ sentAtMs }) => sentAtMs).sort((one, other) => one - other);
  // for the windows from each start to the current answer: their requests plus perSecond × the start
  const levels = Float64Array.from(starts, (atMs) => (perSecond * atMs) / 1_000);
  let most = Number.NEGATIVE_INFINITY;
  for (const { sentAtMs, answeredAtMs } of passed.toSorted((one, other) => one.answeredAtMs - other.answeredAtMs)) {
    for (let at = 0; at < starts.length && (starts[at] ?? 0) <= sentAtMs; at++) {
      const level = (levels[at] ?? 0) + 1;
      levels[at] = level;
      most = Math.max(most, level - (perSecond * answeredAtMs) / 1_000);
    }
  }
  return most - burst;
}

/** How many of the requests answered at these times an empty bucket admits, with this rate and burst. */
export function admissible(answeredAtMs: readonly number[], perSecond: number, burst: number): number {
  let [tokens, admitted, beforeMs] = [0, 0, answeredAtMs[0] ?? 0];
  for (const atMs of answeredAtMs) {
    tokens = Math.min(tokens + ((atMs - beforeMs) * perSecond) / 1_000, burst);
    beforeMs = atMs;
    if (tokens < 1) continue;
    tokens--;
    admitted++;
  }
  return admitted;
}
