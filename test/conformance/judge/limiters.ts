import type { Algorithm, Limit } from '../../../conformance/src/judge/limits.ts';

/** The state of one counter of any algorithm. */
export interface State {
  /** The number of the current window. */
  window: number;
  count: number;
  previous: number;
  /** Hits of the log, by their time. */
  log: readonly (readonly [atMs: number, hits: number])[];
  /** Tokens at a time. */
  tokens: number;
  atMs: number;
  /** When each request in flight expires. */
  holds: ReadonlyMap<string, number>;
}

export interface Call {
  readonly hits: number;
  readonly holder: string;
  readonly nowMs: number;
}

export interface Answer {
  readonly passes: boolean;
  readonly remaining: number;
  readonly resetMs?: number;
}

/** One step of a counter: changes its state, and answers. */
export type Step = (state: State, call: Call, limit: Limit) => Answer;

export const freshState = (limit: Limit, nowMs: number): State => ({
  window: 0,
  count: 0,
  previous: 0,
  log: [],
  tokens: limit.burst,
  atMs: nowMs,
  holds: new Map(),
});

const refusal = (remaining: number): Answer => ({ passes: false, remaining: Math.max(0, remaining) });

const fixedWindow: Step = (state, { hits, nowMs }, { limit, windowMs }) => {
  const window = Math.floor(nowMs / windowMs);
  if (window !== state.window) Object.assign(state, { window, count: 0 });
  const resetMs = (window + 1) * windowMs - nowMs;
  if (state.count + hits > limit) return { ...refusal(limit - state.count), resetMs };
  state.count += hits;
  return { passes: true, remaining: limit - state.count, resetMs };
};

const slidingLog: Step = (state, { hits, nowMs }, { limit, windowMs }) => {
  state.log = state.log.filter(([atMs]) => atMs > nowMs - windowMs);
  const count = state.log.reduce((sum, [, one]) => sum + one, 0);
  if (count + hits > limit) return refusal(limit - count);
  state.log = [...state.log, [nowMs, hits]];
  return { passes: true, remaining: limit - count - hits };
};

const slidingCounter: Step = (state, { hits, nowMs }, { limit, windowMs }) => {
  const window = Math.floor(nowMs / windowMs);
  if (window !== state.window)
    Object.assign(state, { previous: window === state.window + 1 ? state.count : 0, window, count: 0 });
  const share = 1 - (nowMs / windowMs - window);
  const estimate = Math.floor(state.count + state.previous * share);
  if (estimate + hits > limit) return refusal(limit - estimate);
  state.count += hits;
  return { passes: true, remaining: limit - estimate - hits };
};

const bucket: Step = (state, { hits, nowMs }, { limit, windowMs, burst }) => {
  state.tokens = Math.min(burst, state.tokens + ((nowMs - state.atMs) * limit) / windowMs);
  state.atMs = nowMs;
  if (state.tokens < hits) return refusal(Math.floor(state.tokens));
  state.tokens -= hits;
  return { passes: true, remaining: Math.floor(state.tokens) };
};

const inFlight: Step = (state, { hits, holder, nowMs }, { limit, ttlMs }) => {
  const holds = new Map([...state.holds].filter(([, untilMs]) => untilMs > nowMs));
  state.holds = holds;
  if (hits < 0) holds.delete(holder);
  else if (holds.size >= limit) return refusal(0);
  else holds.set(holder, nowMs + ttlMs);
  return { passes: true, remaining: limit - holds.size };
};

/** From the definitions; independent of Weir. */
export const steps: Readonly<Record<Algorithm, Step>> = {
  fixed_window: fixedWindow,
  sliding_window_log: slidingLog,
  sliding_window_counter: slidingCounter,
  token_bucket: bucket,
  leaky_bucket: bucket,
  in_flight: inFlight,
};
