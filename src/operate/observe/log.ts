import { destination, type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';
import { printableJson, printableLines } from '../../base/printable.ts';

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
  if (format === 'text') {
    return pino(
      { level, ...(isWorker && { msgPrefix: `worker ${worker}: ` }) },
      pretty({
        destination: openStderr(),
        colorize: false,
        ignore: 'pid,hostname',
        translateTime: 'UTC:yyyy-mm-dd HH:MM:ss.l',
        messageFormat: (line, key) => printableLines(String(line[key] ?? '')), // it may quote a request
      }),
    );
  }
  const options = {
    level,
    messageKey: '@message',
    timestamp: () => stdTimeFunctions.isoTime().replace('"time"', '"@timestamp"'),
    formatters: { level: (label: string) => ({ level: label }), bindings: () => (isWorker ? { worker } : {}) },
  };
  return pino(options, openStderr());
}

/** Characters that wait for room on a full disk; further lines are lost. */
const MAX_WAITING = 1_048_576;

/** The standard error stream, which may be a file: a line that cannot be written ends no process. */
function openStderr() {
  const stream = destination({ dest: 2, sync: true, maxLength: MAX_WAITING });
  stream.on('error', () => {});
  return stream;
}

/** Logs decisions, one line each, regardless of the level of other lines; in JSON under `decision`. */
export function createDecisionSink(options: LogOptions): (decision: object) => void {
  const log = createLogger({ ...options, level: 'info' });
  if (options.format === 'json') return (decision) => log.info({ decision }, 'decision');
  return (decision) => log.info(`decision ${printableJson(decision, 0)}`);
}
