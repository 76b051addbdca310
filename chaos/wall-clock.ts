const SAMPLES = 1_000;

/** Milliseconds since the epoch, with fractions, on a clock that never runs backwards. */
export interface WallClock {
  nowMs(): number;
  /** How far the machine's clock has been set since. */
  setByMs(): number;
}

/** The machine's clock at the start, continued by the monotonic clock: windows follow the first, durations the second. */
export function createWallClock(): WallClock {
  const originMs = measureOriginMs();
  return {
    nowMs: () => originMs + performance.now(),
    setByMs: () => measureOriginMs() - originMs,
  };
}

/** Each sample is too small by what was cut off, and by what the process had to wait between the two. */
function measureOriginMs(): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let left = SAMPLES; left > 0; left--) largest = Math.max(largest, Date.now() - performance.now());
  return largest;
}
