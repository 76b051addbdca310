const SAMPLES = 1_000;

/** Milliseconds since the epoch, with fractions, from a clock that never goes back. */
export interface WallClock {
  nowMs(): number;
  /** By how much the machine's clock has been set since the start. */
  setByMs(): number;
}

/** The machine's clock at the start, for windows, continued by the monotonic clock, for exact durations. */
export function createWallClock(): WallClock {
  const originMs = measureOriginMs();
  return {
    nowMs: () => originMs + performance.now(),
    setByMs: () => measureOriginMs() - originMs,
  };
}

/** Takes the largest sample, since each is too small by rounding and by the time between its two readings. */
function measureOriginMs(): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let left = SAMPLES; left > 0; left--) largest = Math.max(largest, Date.now() - performance.now());
  return largest;
}
