import { monotonicMs } from '../../base/clock.ts';
import type { Http2Connection } from './connection.ts';

/** Limits on the number and the age of connections, and their keepalive. */
export interface ConnectionLimits {
  /** Maximum number of open connections; a further one replaces an idle one, or is closed. */
  readonly maxCount: number;
  /** Age, ±10 %, at which a connection is sent GOAWAY so that its client reconnects; 0 for never. */
  readonly maxAgeMs: number;
  /** Time that its calls may continue after that; 0 for no limit. */
  readonly maxAgeGraceMs: number;
  /** Interval of pings to the client; 0 for never. */
  readonly keepaliveTimeMs: number;
  /** Time after an unanswered ping at which the client is disconnected. */
  readonly keepaliveTimeoutMs: number;
}

/** Bounds of the interval between checks of connections. */
const MAX_INTERVAL_MS = 1_000;
const MIN_INTERVAL_MS = 5;
const CHECKS_PER_LIMIT = 10;

/** Varies a time by ±10 %, so that clients that connected together do not reconnect together. */
const withJitter = (ms: number): number => ms * (0.9 + 0.2 * Math.random());

/** The interval at which to call `ConnectionLife.check`. */
export function checkIntervalMs(limits: ConnectionLimits | undefined): number {
  if (!limits) return MAX_INTERVAL_MS;
  const { maxAgeMs, maxAgeGraceMs, keepaliveTimeMs, keepaliveTimeoutMs } = limits;
  const set = [maxAgeMs, maxAgeGraceMs, keepaliveTimeMs, keepaliveTimeoutMs].filter((ms) => ms > 0);
  const intervalMs = Math.min(...set) / CHECKS_PER_LIMIT;
  return Math.max(MIN_INTERVAL_MS, Math.min(intervalMs, MAX_INTERVAL_MS));
}

/**
 * Enforces a connection's maximum age and its keepalive. One timer checks all connections, since two per connection
 * would take more memory than everything else here.
 *
 * @see https://github.com/grpc/proposal/blob/master/A9-server-side-conn-mgt.md
 */
export class ConnectionLife {
  readonly #connection: Http2Connection;
  readonly #limits: ConnectionLimits;
  /** On the monotonic clock; Infinity for never. */
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

  /** Whether the pong is overdue at two checks in a row, between which a process that was late reads its input. */
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
