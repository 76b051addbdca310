import type { Clock } from '../../base/clock.ts';
import type { RequestClock } from '../../base/request-clock.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { Background } from '../../operate/observe/work-state.ts';

/** Dependencies of all parts of a process. */
export interface ProcessContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** The work beside the answers. */
  readonly background: Background;
  /** The source of `clock`, if requests are recorded. */
  readonly requestClock?: RequestClock;
}
