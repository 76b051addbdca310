import { constants, fstatSync, openSync } from 'node:fs';
import process from 'node:process';
import { destination, type Logger, pino, stdTimeFunctions } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { printableJson, printableLines } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';

export type { Logger };

interface LogOptions {
  readonly level: string;
  readonly format: 'text' | 'json';
  readonly worker?: number;
}

/**
 * Creates a logger that writes to stderr, so that stdout is free for the output of commands.
 *
 * @param format  `text` for people, or `json` with envoyproxy/ratelimit's keys `@timestamp`, `@message`, `level`
 * @param worker  number of the worker process: prefixes the message (text), or the key `worker` (JSON)
 */
export function createLogger({ level, format, worker }: LogOptions): Logger {
  const isWorker = worker !== undefined;
  const stderr = openStderr();
  if (format === 'text') {
    const pretty = prettyFactory({
      colorize: false,
      ignore: 'pid,hostname',
      translateTime: 'UTC:yyyy-mm-dd HH:MM:ss.l',
      messageFormat: (line, key) => printableLines(String(line[key] ?? '')), // it may quote a request
    });
    // no stream of pino-pretty, which would end with the first line that cannot be written
    const write = (line: string): unknown => stderr.write(pretty(line));
    return withLosses(pino({ level, ...(isWorker && { msgPrefix: `worker ${worker}: ` }) }, { write }), stderr);
  }
  const options = {
    level,
    messageKey: '@message',
    timestamp: () => stdTimeFunctions.isoTime().replace('"time"', '"@timestamp"'),
    formatters: { level: (label: string) => ({ level: label }), bindings: () => (isWorker ? { worker } : {}) },
  };
  return withLosses(pino(options, stderr), stderr);
}

/** Has the logger say how many lines were lost, once there is room again. */
function withLosses(log: Logger, stderr: ReturnType<typeof openStderr>): Logger {
  let lost = 0;
  const report = (): void => {
    const lines = lost;
    lost = 0;
    log.error(
      `${counted(lines, 'line')} of this log lost before this one: ${MAX_WAITING} characters waited for stderr`,
    );
    if (lost > 0) lost = lines; // this one was lost as well, and is written later
  };
  stderr.on('drop', () => {
    if (lost++ === 0) stderr.once('drain', report);
  });
  return log;
}

/** Characters that wait for room on a full disk or in a pipe; further lines are lost, which is logged later. */
const MAX_WAITING = 1_048_576;

/** How long a process that ends waits for a pipe to take its last lines, and how often it tries. */
const MAX_END_MS = 1_000;
const END_RETRY_MS = 20;

/** The interval at which lines that wait are written again, if no other line is. */
const RETRY_MS = 100;

/** The standard error stream. A failed write does not end the process, which waits for it only when it exits. */
function openStderr() {
  const dest = withoutWaiting(2);
  const stream = destination({ dest, sync: true, maxLength: MAX_WAITING, retryEAGAIN: () => false });
  const retry = setTimeout(() => stream.write(''), RETRY_MS).unref();
  let isFull = false;
  stream.on('error', () => {
    isFull = true;
    retry.refresh();
  });
  const writeLast = (): void => {
    const endMs = performance.now() + MAX_END_MS;
    do {
      isFull = false;
      stream.write('');
      if (isFull) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, END_RETRY_MS);
    } while (isFull && performance.now() < endMs);
  };
  stream.once('error', () => process.once('exit', writeLast));
  return stream;
}

/** A descriptor of the same pipe to which writes fail while it is full, since its reader, a log collector, may hang. */
function withoutWaiting(fd: number): number {
  try {
    return fstatSync(fd).isFIFO() ? openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK) : fd;
  } catch {
    return fd; // not Linux, or not permitted
  }
}

/** Logs decisions, one line each, regardless of the level of other lines; in JSON under `decision`. */
export function createDecisionSink(options: LogOptions): (decision: object) => void {
  const log = createLogger({ ...options, level: 'info' });
  if (options.format === 'json') return (decision) => log.info({ decision }, 'decision');
  return (decision) => log.info(`decision ${printableJson(decision, 0)}`);
}
