import { destination, type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';

export type { Logger };

/**
 * Log lines on stderr, so that stdout stays free for what a command prints.
 *
 * @param format  `text` for people; `json` with the keys that envoyproxy/ratelimit has: `@timestamp`, `@message`, `level`
 */
export function createLogger({ level, format }: { readonly level: string; readonly format: 'text' | 'json' }): Logger {
  if (format === 'text') {
    return pino(
      { level },
      pretty({
        destination: 2,
        sync: true,
        colorize: false,
        ignore: 'pid,hostname',
        translateTime: 'UTC:yyyy-mm-dd HH:MM:ss.l',
      }),
    );
  }
  const options = {
    level,
    messageKey: '@message',
    timestamp: () => stdTimeFunctions.isoTime().replace('"time"', '"@timestamp"'),
    formatters: { level: (label: string) => ({ level: label }), bindings: () => ({}) },
  };
  return pino(options, destination({ dest: 2, sync: true }));
}
