import { setTimeout as sleep } from 'node:timers/promises';
import type { QuotaEnvoy } from './quota-envoy.ts';

/** Requests to one proxy. */
export interface QuotaLoad {
  /** When each request passed, in milliseconds on the monotonic clock. */
  readonly passedAtMs: number[];
  readonly sent: () => number;
  perSecond: number;
  stop(): Promise<void>;
}

/** Sends requests at a rate that may change; those of a proxy that is down count for nothing. */
export function startQuotaLoad(envoy: Pick<QuotaEnvoy, 'passes'>, perSecond: number): QuotaLoad {
  const passedAtMs: number[] = [];
  let sent = 0;
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
      envoy
        .passes()
        .then((passed) => void (passed && passedAtMs.push(performance.now())))
        .catch(() => {})
        .finally(() => inFlight--);
    }
  }, 10);
  const load: QuotaLoad = {
    ...{ passedAtMs, perSecond, sent: () => sent },
    async stop() {
      clearInterval(timer);
      while (inFlight > 0) await sleep(10);
    },
  };
  return load;
}

/**
 * The largest number of requests above `perSecond` × T + `burst` in any window of length T; at most 0 within the bound.
 *
 * @param passedAtMs  when each passed
 */
export function mostAboveBound(passedAtMs: readonly number[], perSecond: number, burst: number): number {
  const sorted = passedAtMs.toSorted((one, other) => one - other);
  // of the window from request i to request j: (j - i + 1) - perSecond × (t_j - t_i)
  let lowest = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const [at, atMs] of sorted.entries()) {
    const level = at - (perSecond * atMs) / 1_000;
    lowest = Math.min(lowest, level);
    most = Math.max(most, level - lowest + 1);
  }
  return most - burst;
}
