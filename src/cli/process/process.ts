import type { ChildProcess } from 'node:child_process';
import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { packageRoot } from '../../base/package-root.ts';
import { printableLines } from '../../base/printable.ts';
import { forkControl } from '../../serve/supervisor/fork-control.ts';

/** The version of the package, for commands. */

export const { version } = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')) as {
  version: string;
};

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Prints why a command failed, and sets the exit code to 1. */
export function fail(message: string): void {
  console.error(printableLines(`weir: ${message}`));
  process.exitCode = 1;
}

/** The first signal calls `close`; the same signal again ends the process at once. */
export function onSignal(close: (reason: string) => Promise<void>): void {
  for (const signal of SIGNALS) process.once(signal, () => void close(signal));
}

let restoreSignals: (() => void) | undefined;

/**
 * Makes signals end the process while the service starts, with exit code 0 unless a failure has set another one:
 * nothing has been answered yet. Without a handler, the kernel ignores signals to the first process of a container (PID
 * 1). Workers are never that process, and simply end.
 *
 * @returns  removes the handlers; call it when the service handles signals itself
 */
export function endStartOnSignals(): () => void {
  if (cluster.isWorker) return () => {};
  const end = (signal: NodeJS.Signals): void => {
    console.error(`weir: ended by ${signal} before the service was open`);
    process.exit(); // keeps an exit code set by an earlier failure
  };
  if (!restoreSignals) for (const signal of SIGNALS) process.on(signal, end);
  restoreSignals ??= () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
  return restoreSignals;
}

/** Starts the control process of the service, which loads its modules while this one does; not in a worker. */
export const startControl = (): ChildProcess | undefined => (cluster.isWorker ? undefined : forkControl());
