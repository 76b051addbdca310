import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { RequestClock } from '../../operate/record/request-clock.ts';

/** Dependencies of all parts of a process. */
export interface ProcessContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** The source of `clock`, if requests are recorded. */
  readonly requestClock?: RequestClock;
}

/** If requests are recorded, the clock stands still during a decision. */
export function contextOf(clock: Clock, log: Logger, isRecording: boolean): ProcessContext {
  if (!isRecording) return { clock, log };
  const requestClock = new RequestClock(clock);
  return { clock: requestClock.read, log, requestClock };
}
