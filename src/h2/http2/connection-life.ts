import { monotonicMs } from '../../base/clock.ts';
import type { Http2Connection } from './connection.ts';

/** Limits on the number and the age of connections, and their keepalive. */
export interface ConnectionLimits {
  /** The most open connections; a further one replaces an idle one, or is closed at once. */
  readonly maxCount: number;
  /** After this age, ±10 %, a connection is sent GOAWAY, so that its client reconnects. 0: never. */
  readonly maxAgeMs: number;
  /** The time that its calls may continue after that. 0: no limit. */
  readonly maxAgeGraceMs: number;
  /** The interval at which a client is pinged. 0: never. */
  readonly keepaliveTimeMs: number;
  /** A client that does not answer a ping within this time is disconnected. */
  readonly keepaliveTimeoutMs: number;
}

/** The longest and the shortest interval between checks of connections. */
const LONGEST_INTERVAL_MS = 1_000;
const SHORTEST_INTERVAL_MS = 5;
/** The number of checks within the shortest limit. */
const CHECKS_PER_LIMIT = 10;

/** ±10 %, so that clients that connected together do not reconnect together. */
const withJitter = (ms: number): number => ms * (0.9 + 0.2 * Math.random());

/** The interval at which to call `ConnectionLife.check`. */
export function checkIntervalMs(limits: ConnectionLimits | undefined): number {
  if (!limits) return LONGEST_INTERVAL_MS;
  const { maxAgeMs, maxAgeGraceMs, keepaliveTimeMs, keepaliveTimeoutMs } = limits;
  const set = [maxAgeMs, maxAgeGraceMs, keepaliveTimeMs, keepaliveTimeoutMs].filter((ms) => ms > 0);
  const intervalMs = Math.min(...set) / CHECKS_PER_LIMIT;
  return Math.max(SHORTEST_INTERVAL_MS, Math.min(intervalMs, LONGEST_INTERVAL_MS));
}

/**
 * A connection's maximum age and its keepalive. One timer checks all connections: two per connection would take more
 * memory than the rest of this.
 *
 * @see https://github.com/grpc/proposal/blob/master/A9-server-side-conn-mgt.md
 */
export class ConnectionLife {
  readonly #connection: Http2Connection;
  readonly #limits: ConnectionLimits;
  /** On the monotonic clock, like the others; Infinity: never. */
  #expiresAtMs: number;
  #endsAtMs = Infinity;
  #pingAtMs: number;
  #pongDueAtMs = Infinity;
  #wasOverdue = false;

  constructor(connection: Http2Connection, limits: ConnectionLimits) {
    const nowMs = monotonicMs();
    this.#connection = connection;
    this.#limits = limits;
    this.#expiresAtMs = limits.maxAgeMs > 0 ? nowMs + withJitter(limits.maxAgeMs) : Infinity;
    this.#pingAtMs = limits.keepaliveTimeMs > 0 ? nowMs + limits.keepaliveTimeMs : Infinity;
  }

  check(nowMs: number): void {
    if (nowMs >= this.#endsAtMs || this.#isSilent(nowMs)) return this.#connection.destroy();
    if (nowMs >= this.#expiresAtMs) this.#expire(nowMs);
    if (nowMs >= this.#pingAtMs) this.#ping(nowMs);
  }

  /** Whether the pong is overdue at two checks in a row: between them, a process that was late reads its input. */
  #isSilent(nowMs: number): boolean {
    const isOverdue = nowMs >= this.#pongDueAtMs;
    const isSilent = isOverdue && this.#wasOverdue;
    this.#wasOverdue = isOverdue;
    return isSilent;
  }

  #expire(nowMs: number): void {
    this.#expiresAtMs = Infinity;
    if (this.#limits.maxAgeGraceMs > 0) this.#endsAtMs = nowMs + this.#limits.maxAgeGraceMs;
    this.#connection.drain();
  }

  #ping(nowMs: number): void {
    this.#pingAtMs = Infinity;
    this.#pongDueAtMs = nowMs + this.#limits.keepaliveTimeoutMs;
    this.#connection.ping(() => {
      this.#pongDueAtMs = Infinity;
      this.#pingAtMs = monotonicMs() + this.#limits.keepaliveTimeMs;
    });
  }
}
