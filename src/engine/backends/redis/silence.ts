import type { Redis } from 'ioredis';

/** A connection that leaves a command unanswered for this long, or a check longer, is closed and reopened. */
export const SILENCE_MS = 1_000;
const CHECKS = 4;
const CHECK_MS = SILENCE_MS / CHECKS;
/** The number of silent checks after a reply: the next command may be sent just before the next check. */
const UNKNOWN = -1;
/** A check that is later than this shows that this process was late, and nothing about the server. */
const LATE_MS = CHECK_MS;

/** Private in the types of ioredis. */
interface Internals {
  readonly commandQueue: { readonly length: number };
  readonly stream: { readonly bytesRead: number; destroy(error: Error): void };
  /** ioredis clears it when the connection closes, and calls `setSocketTimeout` if a command is sent without it. */
  socketTimeoutTimer: NodeJS.Timeout | undefined;
  setSocketTimeout(): void;
}

/**
 * Replaces ioredis' own detection of silent connections. Its timer fires before input is read, so a process that was
 * stopped or busy for a second lost its connection although the replies had arrived. It was also set again with each
 * reply, while this one is checked four times a second.
 */
export function endWhenSilent(redis: Redis): void {
  const internals = redis as unknown as Internals;
  internals.setSocketTimeout = () => {
    const { stream } = internals;
    let bytesRead = stream.bytesRead;
    let silentChecks = UNKNOWN;
    let dueMs = 0;
    const check = (): void => {
      const isLate = performance.now() - dueMs > LATE_MS;
      internals.socketTimeoutTimer = undefined;
      if (internals.commandQueue.length === 0) return;
      const isSilent = stream.bytesRead === bytesRead && !isLate;
      bytesRead = stream.bytesRead;
      silentChecks = isSilent ? silentChecks + 1 : UNKNOWN;
      if (silentChecks >= CHECKS) stream.destroy(new Error(`no reply within ${SILENCE_MS} ms`));
      else wait();
    };
    const wait = (): void => {
      dueMs = performance.now() + CHECK_MS;
      internals.socketTimeoutTimer = setTimeout(check, CHECK_MS);
    };
    wait();
  };
}
