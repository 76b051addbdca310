import { type Algorithm, type FixedWindowLimit, MAX_COUNT, NEVER_MS, type State, type Step } from './limit.ts';

/**
 * Fixed window: counts hits from one boundary of the clock to the next, then starts again. Twin of fixed-window.lua.
 * State: window start (ms since the epoch), count.
 *
 * Refused hits are counted too, as envoyproxy/ratelimit does: 7 hits at 15 of 20 are refused whole and leave 22.
 * Up to twice the limit passes within one window's length that straddles a boundary.
 *
 * @param nowMs  may run backwards (clock skew); the later window stays in force and nothing is forgotten
 * @param hits   0 looks: refused only when the count is already above the limit; below 0 gives back, never below 0 spent
 */
function step(limit: FixedWindowLimit, state: State | undefined, nowMs: number, hits: number): Step {
  let startMs = nowMs - (nowMs % limit.windowMs);
  let count = 0;
  const [knownStartMs = Number.NEGATIVE_INFINITY, knownCount = 0] = state ?? [];
  if (knownStartMs >= startMs) {
    startMs = knownStartMs;
    count = knownCount;
  }
  count = Math.min(Math.max(count + hits, 0), MAX_COUNT);
  const accepted = hits < 0 || count <= limit.requestsPerUnit;
  return { accepted, state: [startMs, count], ttlMs: startMs + limit.windowMs - nowMs };
}

/** The fixed window's row in the table of algorithms. */
export const fixedWindow: Algorithm<FixedWindowLimit> = {
  step,
  describe(limit, [startMs = 0, count = 0], nowMs, hits, accepted) {
    const durationUntilResetMs = startMs + limit.windowMs - nowMs;
    const fitsAnEmptyWindow = hits <= limit.requestsPerUnit;
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(count - hits, 0),
      limitRemaining: Math.max(limit.requestsPerUnit - count, 0),
      durationUntilResetMs,
      retryAfterMs: accepted ? 0 : fitsAnEmptyWindow ? durationUntilResetMs : NEVER_MS,
    };
  },
  script: new URL('./fixed-window.lua', import.meta.url),
  scriptArgs: (limit) => [limit.requestsPerUnit, limit.windowMs],
};
