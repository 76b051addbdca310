import { setTimeout as sleep } from 'node:timers/promises';

/** Lifetime after which a process is replaced immediately; otherwise the delay doubles each time. */
const STEADY_MS = 10_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 10_000;

/** How a process ended that could not be started. */
export const noProcess = (error: unknown): string => `no process: ${error instanceof Error ? error.message : error}`;

interface KeptUp {
  /** Resolves when the process has ended, with how it ended. */
  readonly ended: Promise<string>;
}

interface KeepUpOptions<P extends KeptUp> {
  readonly first: P;
  readonly replace: () => P;
  readonly closing: AbortSignal;
  /** Called before each replacement. */
  readonly onEnd: (how: string, waitMs: number, ended: P) => void;
}

/** Replaces a process each time it ends, until `closing` is aborted. One that cannot be started counts as ended. */
export async function keepUp<P extends KeptUp>({ first, replace, closing, onEnd }: KeepUpOptions<P>): Promise<void> {
  let current = first;
  let { ended } = first;
  let startedMs = performance.now();
  let shortLives = 0;
  for (;;) {
    const how = await ended;
    if (closing.aborted) return;
    shortLives = performance.now() - startedMs < STEADY_MS ? shortLives + 1 : 0;
    const waitMs = shortLives === 0 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (shortLives - 1), MAX_DELAY_MS);
    onEnd(how, waitMs, current);
    await sleep(waitMs, undefined, { signal: closing }).catch(() => {}); // ends early when the service closes
    if (closing.aborted) return;
    startedMs = performance.now();
    try {
      current = replace();
      ended = current.ended;
    } catch (error) {
      ended = Promise.resolve(noProcess(error)); // Node throws some reasons, such as ENOMEM, and emits others
    }
  }
}
