import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { packageRoot } from '../../base/package-root.ts';
import { printableJson, printableLines } from '../../base/printable.ts';
import type { Environment } from '../../settings/near-misses.ts';

/** The version of the package, for commands. */

export const { version } = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')) as {
  version: string;
};

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Prints the reason why a command failed, and sets the exit code to 1.
 *
 * @param env  of the service, whose log format applies, even if other settings are invalid
 */
export function fail(message: string, env: Environment = {}): void {
  if (hasJsonLog(env)) printRecord('fatal', message);
  else console.error(printableLines(`weir: ${message}`));
  process.exitCode = 1;
}

const hasJsonLog = ({ LOG_FORMAT }: Environment): boolean => LOG_FORMAT?.toLowerCase() === 'json';

/** Prints that the service is open: a summary or, if the log is JSON and stdout is no terminal, a record. */
export function printOpen({ banner, facts }: { banner: string; facts: object }, format: 'text' | 'json'): void {
  if (format === 'text' || process.stdout.isTTY) console.log(banner);
  else printRecord('info', `Weir ${version} is open`, facts);
}

/** Prints a line like those of the service's JSON log, at any level of the log, and before there is one. */
function printRecord(level: 'info' | 'fatal', message: string, more: object = {}): void {
  const timestamp = new Date().toISOString();
  console.error(printableJson({ level, '@timestamp': timestamp, ...more, '@message': message }, 0));
}

/** Calls `close` at the first signal, and ends the process immediately if it is repeated. */
export function onSignal(close: (reason: string) => Promise<void>): void {
  for (const signal of SIGNALS) process.once(signal, () => void close(signal));
}

/** Ends the process after this time at the latest, with the exit code that it has then. */
export function endWithin(ms: number): void {
  setTimeout(() => process.exit(), ms).unref();
}

let restoreSignals: (() => void) | undefined;

/**
 * Makes signals end the process while the service starts, as nothing has been answered yet, with exit code 0 unless a
 * failure has set another one. Without a handler, the kernel ignores signals to the first process of a container (PID
 * 1), which workers never are.
 *
 * @returns  a function that removes the handlers, to be called when the service handles signals itself
 */
export function endStartOnSignals(): () => void {
  if (cluster.isWorker) return () => {};
  const end = (signal: NodeJS.Signals): void => {
    const message = `stopped by ${signal} during startup`;
    if (hasJsonLog(process.env)) printRecord('info', message);
    else console.error(`weir: ${message}`);
    process.exit(); // keeps the exit code of an earlier failure
  };
  if (!restoreSignals) for (const signal of SIGNALS) process.on(signal, end);
  restoreSignals ??= () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
  return restoreSignals;
}
