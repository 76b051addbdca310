import { availableParallelism } from 'node:os';

/** Parses the text of one variable. */
export type Parse<T> = (text: string) => T | Mismatch;

/** A text that does not match its kind. */
export class Mismatch {
  /** The kind of text that is expected, in words. */
  readonly expected: string;
  constructor(expected: string) {
    this.expected = expected;
  }
}

export const text: Parse<string> = (written) => written;
export const textNotEmpty: Parse<string> = (written) => (written === '' ? new Mismatch('a non-empty text') : written);

/** An HTTP field name. @see https://www.rfc-editor.org/rfc/rfc9110#name-field-names */
export const headerName: Parse<string> = (written) =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(written) ? written : new Mismatch('a header name such as RateLimit-Limit');
export const headerNameOrNone: Parse<string> = (written) => (written === '' ? written : headerName(written));
export const headerNames: Parse<readonly string[]> = (written) => {
  const names = list(written);
  const areValid = names.every((name) => !(headerName(name) instanceof Mismatch));
  return areValid ? names : new Mismatch('comma-separated header names such as Retry-After');
};

/** A boolean in Go's syntax. */
export const flag: Parse<boolean> = (written) => {
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(written)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(written)) return false;
  return new Mismatch('true or false');
};

/** An integer in Go's syntax: `0x1F` is 31. */
export const integer =
  (from: number, to: number, what: string): Parse<number> =>
  (written) => {
    const value = /^[+-]?(\d+|0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/.test(written) ? Number(written) : Number.NaN;
    return value >= from && value <= to ? value : new Mismatch(`${what} from ${from} to ${to}`);
  };

/** Upper bound for WORKERS. */
const MAX_WORKERS = 1_024;

/** A number of processes, or `auto` for one per processor. */
export const workers: Parse<number> = (written) => {
  if (written === 'auto') return Math.min(availableParallelism(), MAX_WORKERS);
  const count = integer(1, MAX_WORKERS, 'a count')(written);
  return count instanceof Mismatch ? new Mismatch(`${count.expected}, or auto`) : count;
};

export const port = integer(0, 65_535, 'a port');

export const number: Parse<number> = (written) => {
  const value = written.trim() === '' ? Number.NaN : Number(written);
  return Number.isNaN(value) ? new Mismatch('a number') : value;
};

export const ratio: Parse<number> = (written) => {
  const value = number(written);
  return typeof value === 'number' && value >= 0 && value <= 1 ? value : new Mismatch('a number from 0 to 1');
};

/** One of these words, in any case. */
export const choice =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) => {
    const found = choices.find((one) => one.toLowerCase() === written.toLowerCase());
    return found ?? new Mismatch(`one of ${choices.join(', ')}`);
  };

const logLevels = choice('trace', 'debug', 'info', 'warn', 'error', 'fatal');
/** Level names of Go programs. */
const otherLevels = new Map([
  ['warning', 'warn'],
  ['panic', 'fatal'],
]);
export const logLevel = ((written) =>
  logLevels(otherLevels.get(written.toLowerCase()) ?? written)) satisfies Parse<string>;

/** One of these words, case-sensitive. */
export const exactly =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) =>
    choices.find((one) => one === written) ?? new Mismatch(`${choices.join(' or ')}, in capitals`);

/** Any word except these. */
export const anythingBut =
  (refused: readonly string[], what: string): Parse<string> =>
  (written) =>
    refused.includes(written.toUpperCase()) ? new Mismatch(what) : written;

/** One of these words, or a fraction above 0 and up to 1. */
export const decisionsToLog: Parse<'off' | 'refused' | 'all' | number> = (written) => {
  const word = choice('off', 'refused', 'all')(written);
  if (!(word instanceof Mismatch)) return word;
  const part = ratio(written);
  return typeof part === 'number' && part > 0
    ? part
    : new Mismatch('off, refused, all, or a number above 0 and up to 1');
};

/** A fraction above 0 and up to 1. */
export const partOfAll: Parse<number> = (written) => {
  const part = ratio(written);
  return typeof part === 'number' && part > 0 ? part : new Mismatch('a number above 0 and up to 1');
};

/** Treats an empty text as unset. */
export const optionally =
  <T>(parse: Parse<T>): Parse<T | undefined> =>
  (written) =>
    written === '' ? undefined : parse(written);

/** Comma-separated words, trimmed. */
export const commaSeparated: Parse<readonly string[]> = (written) => list(written).map((one) => one.trim());

/** Comma-separated words; blanks are significant. */
export const list = (written: string): readonly string[] => (written === '' ? [] : written.split(','));

/** Comma-separated `key:value` pairs with exactly one colon each, as in envoyproxy/ratelimit. */
export const pairs: Parse<ReadonlyMap<string, string>> = (written) => pairsBy(written, ':', 'key:value');

/** Comma-separated `key=value` pairs. */
export const assignments: Parse<ReadonlyMap<string, string>> = (written) => pairsBy(written, '=', 'key=value');

function pairsBy(written: string, mark: ':' | '=', example: string): ReadonlyMap<string, string> | Mismatch {
  const parts = list(written.trim()).map((pair) => pair.split(mark));
  if (parts.some(({ length }) => length !== 2)) return new Mismatch(`comma-separated ${example} pairs`);
  return new Map(parts.map(([key = '', value = '']) => [key, value]));
}

/** `host:port`, or `:port` for all addresses of this machine. */
export const listenAddress: Parse<{ readonly host: string; readonly port: number }> = (written) => {
  const [, host = '', digits] = /^(.*):(\d+)$/.exec(written) ?? [];
  const number = digits === undefined ? undefined : port(digits);
  if (typeof number !== 'number') return new Mismatch('host:port, or :port for all addresses');
  return { host: host === '' ? '0.0.0.0' : host.replace(/^\[(.*)\]$/, '$1'), port: number };
};

/** A text that is not empty. */
export const someText: Parse<string> = (written) => (written === '' ? new Mismatch('not empty') : written);

/** A URL path. */
export const pagePath: Parse<string> = (written) =>
  written.startsWith('/') ? written : new Mismatch('a path that begins with /');

/** The longest delay of Node's timers. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const durationUnitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1e3,
  m: 6e4,
  h: 3.6e6,
};

/** A duration in Go's syntax, in whole milliseconds: `150ms`, `10s`, `1h30m`. */
export const durationMs: Parse<number> = (written) => {
  if (written === '0') return 0;
  const parts = [...written.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
  const isComplete = parts.length > 0 && parts.map(([part]) => part).join('') === written;
  if (!isComplete) return new Mismatch('a duration such as 150ms, 10s or 1h30m');
  const exactMs = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitMs[unit] ?? 0), 0);
  const ms = Math.ceil(Math.round(exactMs * 1e6) / 1e6); // to the nanosecond first: 16.1 s is not 16,101 ms
  return ms <= MAX_TIMER_MS ? ms : new Mismatch(`a duration of at most ${MAX_TIMER_MS} ms`);
};

/** A duration above 0. */
export const someDurationMs: Parse<number> = (written) => {
  const ms = durationMs(written);
  return ms === 0 ? new Mismatch('a duration above 0') : ms;
};
