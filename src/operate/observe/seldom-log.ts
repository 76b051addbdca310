import type { Monotonic } from '../../base/clock.ts';

/** Interval between log lines for the same key. */
const REPEAT_MS = 60_000;
/** Maximum number of remembered keys: Redis has a few dozen reasons to refuse. */
const MAX_KEYS = 100;

type SeldomLog = (key: string, log: () => void) => void;

/** The message without its variable parts: numbers and quoted texts. */
const messageKind = (message: string): string => message.replace(/(["'`]).*?\1|\d+/gs, '#');

/** Logs at once, then once a minute for each key. */
export function createSeldomLog(monotonicMs: Monotonic): SeldomLog {
  const loggedAtMs = new Map<string, number>();
  return (key, log) => {
    const nowMs = monotonicMs();
    if (nowMs - (loggedAtMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    if (loggedAtMs.size >= MAX_KEYS) loggedAtMs.clear();
    loggedAtMs.set(key, nowMs);
    log();
  };
}

/** Limits what is logged about outages of servers or connections, each under its own name. */
export function createOutageLog(logSeldom: SeldomLog) {
  const logged = new Set<string>();
  return {
    /** Logs an outage once, and each kind of failure once a minute: a server may accept connections and break each. */
    failed(name: string, reason: string, log: () => void): void {
      if (logged.has(name)) return;
      logSeldom(`${name} ${messageKind(reason)}`, () => {
        logged.add(name);
        log();
      });
    },
    /** @returns whether the outage was logged, so that its end should be logged as well */
    recovered: (name: string): boolean => logged.delete(name),
  };
}
