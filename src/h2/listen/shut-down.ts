import type { Listener } from './listener.ts';

/** How often a closing server checks for calls in flight; also the time in which the last answer is sent. */
const CHECK_INTERVAL_MS = 50;

/** The parts of a server that `shutDown` needs. */
interface Closing {
  readonly listener: Listener;
  /** Asks clients to reconnect elsewhere. */
  readonly sendGoaway: () => void;
  /** Number of unanswered decisions. */
  readonly inFlight: () => number;
  /** Ends every connection. */
  readonly end: () => void;
}

/**
 * Closes a server: waits up to `graceMs` for decisions in flight, but not for streams (health Watch, reflection), which
 * may never end.
 */
export async function shutDown({ listener, sendGoaway, inFlight, end }: Closing, graceMs: number): Promise<void> {
  const endMs = performance.now() + graceMs;
  let wasIdle = false;
  const timer = setInterval(() => {
    const isIdle = inFlight() === 0;
    if ((isIdle && wasIdle) || performance.now() >= endMs) end();
    wasIdle = isIdle;
  }, CHECK_INTERVAL_MS);
  const closed = listener.close();
  sendGoaway();
  await closed;
  clearInterval(timer);
  end();
}
