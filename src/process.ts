import { readFileSync } from 'node:fs';
import { packageRoot } from './package-root.ts';

/** What commands take from the process that they run in. */

export const { version } = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')) as {
  version: string;
};

/** Prints why a command failed, and makes the exit code 1. */
export function fail(message: string): void {
  console.error(`weir: ${message}`);
  process.exitCode = 1;
}

/** The first signal closes; the same one again ends the process at once. */
export function onSignal(close: (reason: string) => Promise<void>): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => void close(signal));
}
