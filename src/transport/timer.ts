/** A timer that runs out once. */
export interface Timer {
  /** Starts it anew. */
  restart(): void;
  stop(): void;
}

/** @param onElapsed  called when it has run for so long, unless it is stopped */
export type StartTimer = (ms: number, onElapsed: () => void) => Timer;

/** Node's timers; they keep no process alive. */
export const startTimer: StartTimer = (ms, onElapsed) => {
  const timeout = setTimeout(onElapsed, ms).unref();
  return { restart: () => void timeout.refresh(), stop: () => clearTimeout(timeout) };
};
