import { type ConnectionLimits, LONGEST_AGE_MS } from './grpc-server.ts';
import type { Http2Connection } from './h2/connection.ts';

/** ±10 %, so that clients that connected together do not reconnect together. */
const withJitter = (ms: number): number => ms * (0.9 + 0.2 * Math.random());

/**
 * Enforces a connection's maximum age and its keepalive.
 *
 * @returns stops the timers; to be called when the connection has ended
 * @see https://github.com/grpc/proposal/blob/master/A9-server-side-conn-mgt.md
 */
export function limitLife(connection: Http2Connection, limits: ConnectionLimits): () => void {
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, what: () => void): NodeJS.Timeout => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      what();
    }, ms).unref();
    timers.add(timer);
    return timer;
  };
  const expire = (): void => {
    connection.drain();
    if (limits.maxAgeGraceMs > 0) after(Math.min(limits.maxAgeGraceMs, LONGEST_AGE_MS), () => connection.destroy());
  };
  const checkAlive = (): void => {
    const pongDeadline = after(Math.min(limits.keepaliveTimeoutMs, LONGEST_AGE_MS), () => connection.destroy());
    connection.ping(() => {
      clearTimeout(pongDeadline);
      timers.delete(pongDeadline);
      after(Math.min(limits.keepaliveTimeMs, LONGEST_AGE_MS), checkAlive);
    });
  };
  if (limits.maxAgeMs > 0) after(withJitter(Math.min(limits.maxAgeMs, LONGEST_AGE_MS)), expire);
  if (limits.keepaliveTimeMs > 0) after(Math.min(limits.keepaliveTimeMs, LONGEST_AGE_MS), checkAlive);
  return () => {
    for (const timer of timers) clearTimeout(timer);
  };
}
