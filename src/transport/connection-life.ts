import { type ConnectionLimits, LONGEST_AGE_MS } from './grpc-server.ts';
import type { Connection } from './h2/connection.ts';

/** Up to a tenth less or more, so that clients that came together do not go together. */
const withJitter = (ms: number): number => ms * (0.9 + 0.2 * Math.random());

/**
 * Lets a connection live for as long as the limits say.
 *
 * @returns to be called when it has ended
 * @see https://github.com/grpc/proposal/blob/master/A9-server-side-conn-mgt.md
 */
export function limitLife(connection: Connection, limits: ConnectionLimits): () => void {
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, what: () => void): NodeJS.Timeout => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      what();
    }, ms).unref();
    timers.add(timer);
    return timer;
  };
  const comeOfAge = (): void => {
    connection.drain();
    if (limits.maxAgeGraceMs > 0) after(Math.min(limits.maxAgeGraceMs, LONGEST_AGE_MS), () => connection.destroy());
  };
  const askWhetherAlive = (): void => {
    const giveUp = after(Math.min(limits.keepaliveTimeoutMs, LONGEST_AGE_MS), () => connection.destroy());
    connection.ping(() => {
      clearTimeout(giveUp);
      timers.delete(giveUp);
      after(Math.min(limits.keepaliveTimeMs, LONGEST_AGE_MS), askWhetherAlive);
    });
  };
  if (limits.maxAgeMs > 0) after(withJitter(Math.min(limits.maxAgeMs, LONGEST_AGE_MS)), comeOfAge);
  if (limits.keepaliveTimeMs > 0) after(Math.min(limits.keepaliveTimeMs, LONGEST_AGE_MS), askWhetherAlive);
  return () => {
    for (const timer of timers) clearTimeout(timer);
  };
}
