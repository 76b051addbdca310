import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import { RequestClock } from '../record/request-clock.ts';

/** A part of the service that must be closed. */
export interface Part {
  close(): void | Promise<void>;
}

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

/** Has an open part closed with the others; returns it. */
export type Add = <P extends Part>(part: P) => P;

/**
 * Opens parts one after the other. `close` closes them once, in reverse order; so does a failure to open one.
 *
 * @param open  calls `add` for each part as soon as it is open
 */
export async function openParts<T extends object>(
  open: (add: Add) => Promise<T>,
): Promise<T & { close(): Promise<void> }> {
  const parts: Part[] = [];
  const close = async (): Promise<void> => {
    for (const part of parts.splice(0).reverse()) await part.close();
  };
  const add: Add = (part) => {
    parts.push(part);
    return part;
  };
  try {
    return Object.assign(await open(add), { close });
  } catch (error) {
    await close();
    throw error;
  }
}
