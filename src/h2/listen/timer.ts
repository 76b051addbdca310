/** A one-shot timer. */
interface Timer {
  /** Restarts the full time. */
  restart(): void;
  stop(): void;
}

/** @param onElapsed  called after `ms`, unless stopped */
export type StartTimer = (ms: number, onElapsed: () => void) => Timer;

/** Node's timers, which do not keep the process alive. */
export const startTimer: StartTimer = (ms, onElapsed) => {
  const timeout = setTimeout(onElapsed, ms).unref();
  return { restart: () => void timeout.refresh(), stop: () => clearTimeout(timeout) };
};
