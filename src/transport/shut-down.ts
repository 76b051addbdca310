import type { Listener } from './listener.ts';

/** How often a server that closes looks whether calls are under way; the last answer has as long to leave. */
const CLOSE_LOOK_INTERVAL_MS = 50;

/** A server that is to be closed. */
export interface Closing {
  readonly listener: Listener;
  /** Asks clients to go elsewhere. */
  readonly sendGoaway: () => void;
  /** Decisions that have not been answered yet. */
  readonly underWay: () => number;
  /** Ends every connection. */
  readonly end: () => void;
}

/**
 * Lets decisions under way finish, for at most `graceMs`. Streams (a health Watch, reflection) are not waited for: they need never end.
 */
export async function shutDown({ listener, sendGoaway, underWay, end }: Closing, graceMs: number): Promise<void> {
  const endMs = performance.now() + graceMs;
  let wasIdle = false;
  const timer = setInterval(() => {
    const isIdle = underWay() === 0;
    if ((isIdle && wasIdle) || performance.now() >= endMs) end();
    wasIdle = isIdle;
  }, CLOSE_LOOK_INTERVAL_MS);
  const closed = listener.close();
  sendGoaway();
  await closed;
  clearInterval(timer);
  end();
}
