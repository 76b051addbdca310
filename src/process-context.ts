import type { Clock } from './clock.ts';
import type { Logger } from './observe/log.ts';
import { RequestClock } from './record/request-clock.ts';

/** What every part of a process uses. */
export interface ProcessContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** What `clock` reads, where requests are recorded. */
  readonly requestClock?: RequestClock;
}

/** Where requests are recorded, the clock stands still while one is decided. */
export function contextOf(clock: Clock, log: Logger, isRecording: boolean): ProcessContext {
  if (!isRecording) return { clock, log };
  const requestClock = new RequestClock(clock);
  return { clock: requestClock.read, log, requestClock };
}

/** Calls the function at this interval, until the returned one is called. */
export function every(intervalMs: number, run: () => void): () => void {
  const timer = setInterval(run, intervalMs).unref();
  return () => clearInterval(timer);
}
