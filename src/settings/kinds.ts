import { availableParallelism } from 'node:os';

/** Reads one variable's text, or says in words what was wanted instead. */
export type Parse<T> = (text: string) => T | Wanted;
export class Wanted {
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

export const text: Parse<string> = (written) => written;

/** A field name of HTTP. @see https://www.rfc-editor.org/rfc/rfc9110#name-field-names */
export const headerName: Parse<string> = (written) =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(written) ? written : new Wanted('the name of a header such as RateLimit-Limit');
export const headerNameOrNone: Parse<string> = (written) => (written === '' ? written : headerName(written));
export const headerNames: Parse<readonly string[]> = (written) => {
  const names = list(written);
  const areRight = names.every((name) => !(headerName(name) instanceof Wanted));
  return areRight ? names : new Wanted('names of headers such as Retry-After, with commas between them');
};

/** As Go reads a boolean. */
export const flag: Parse<boolean> = (written) => {
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(written)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(written)) return false;
  return new Wanted('true or false');
};

/** As Go reads an integer: `0x1F` is 31. */
export const integer =
  (from: number, to: number, what: string): Parse<number> =>
  (written) => {
    const value = /^[+-]?(\d+|0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/.test(written) ? Number(written) : Number.NaN;
    return value >= from && value <= to ? value : new Wanted(`${what} from ${from} to ${to}`);
  };

/** The most processes that are asked for in one service. */
const MAX_WORKERS = 1_024;

/** How many processes: a number, or `auto` for as many as there are processors. */
export const workers: Parse<number> = (written) => {
  if (written === 'auto') return Math.min(availableParallelism(), MAX_WORKERS);
  const count = integer(1, MAX_WORKERS, 'a count')(written);
  return count instanceof Wanted ? new Wanted(`${count.what}, or auto`) : count;
};

export const port = integer(0, 65_535, 'a port');

export const number: Parse<number> = (written) => {
  const value = written.trim() === '' ? Number.NaN : Number(written);
  return Number.isNaN(value) ? new Wanted('a number') : value;
};

export const ratio: Parse<number> = (written) => {
  const value = number(written);
  return typeof value === 'number' && value >= 0 && value <= 1 ? value : new Wanted('a number from 0 to 1');
};

/** One of these words, in capitals or not. */
export const choice =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) => {
    const found = choices.find((one) => one.toLowerCase() === written.toLowerCase());
    return found ?? new Wanted(`one of ${choices.join(', ')}`);
  };

const logLevels = choice('trace', 'debug', 'info', 'warn', 'error', 'fatal');
/** Two more names that Go programs have for levels. */
const otherLevels = new Map([
  ['warning', 'warn'],
  ['panic', 'fatal'],
]);
export const logLevel = ((written) =>
  logLevels(otherLevels.get(written.toLowerCase()) ?? written)) satisfies Parse<string>;

/** One of these words, as written. */
export const exactly =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) =>
    choices.find((one) => one === written) ?? new Wanted(`${choices.join(' or ')}, in capitals`);

/** Any word but some that are refused. */
export const anythingBut =
  (refused: readonly string[], what: string): Parse<string> =>
  (written) =>
    refused.includes(written.toUpperCase()) ? new Wanted(what) : written;

/** A word, or the part of all, above 0 and up to 1. */
export const decisionsToLog: Parse<'off' | 'refused' | 'all' | number> = (written) => {
  const word = choice('off', 'refused', 'all')(written);
  if (!(word instanceof Wanted)) return word;
  const part = ratio(written);
  return typeof part === 'number' && part > 0 ? part : new Wanted('off, refused, all, or a number above 0 and up to 1');
};

/** Empty is as good as not set. */
export const optionally =
  <T>(parse: Parse<T>): Parse<T | undefined> =>
  (written) =>
    written === '' ? undefined : parse(written);

/** Words with commas between them; blanks count. */
/** Texts with commas between them. */
export const commaSeparated: Parse<readonly string[]> = (written) => list(written).map((one) => one.trim());

export const list = (written: string): readonly string[] => (written === '' ? [] : written.split(','));

/** `key:value` pairs with commas between them: exactly one colon each, as in envoyproxy/ratelimit. */
export const pairs: Parse<ReadonlyMap<string, string>> = (written) => pairsBy(written, ':', 'key:value');

/** `key=value` pairs with commas between them. */
export const assignments: Parse<ReadonlyMap<string, string>> = (written) => pairsBy(written, '=', 'key=value');

function pairsBy(written: string, mark: ':' | '=', example: string): ReadonlyMap<string, string> | Wanted {
  const parts = list(written.trim()).map((pair) => pair.split(mark));
  if (parts.some(({ length }) => length !== 2)) return new Wanted(`${example} pairs with commas between them`);
  return new Map(parts.map(([key = '', value = '']) => [key, value]));
}

/** `host:port` or `:port`: every address of this machine. */
export const listenAddress: Parse<{ readonly host: string; readonly port: number }> = (written) => {
  const [, host = '', digits] = /^(.*):(\d+)$/.exec(written) ?? [];
  const number = digits === undefined ? undefined : port(digits);
  if (typeof number !== 'number') return new Wanted('host:port, or :port for all addresses');
  return { host: host === '' ? '0.0.0.0' : host.replace(/^\[(.*)\]$/, '$1'), port: number };
};

/** Some text, not none. */
export const someText: Parse<string> = (written) => (written === '' ? new Wanted('not empty') : written);

/** The path of a page. */
export const pagePath: Parse<string> = (written) =>
  written.startsWith('/') ? written : new Wanted('a path that begins with /');

/** The longest that a timer of Node's runs. */
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

/** A duration as Go writes it, in whole milliseconds: `150ms`, `10s`, `1h30m`. */
export const durationMs: Parse<number> = (written) => {
  if (written === '0') return 0;
  const parts = [...written.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
  const whole = parts.length > 0 && parts.map(([part]) => part).join('') === written;
  if (!whole) return new Wanted('a duration such as 150ms, 10s or 1h30m');
  const exactMs = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitMs[unit] ?? 0), 0);
  const ms = Math.ceil(Math.round(exactMs * 1e6) / 1e6); // to the nanosecond first: 16.1 s is not 16,101 ms
  return ms <= MAX_TIMER_MS ? ms : new Wanted(`a duration of at most ${MAX_TIMER_MS} ms`);
};

/** The same, but not 0. */
export const someDurationMs: Parse<number> = (written) => {
  const ms = durationMs(written);
  return ms === 0 ? new Wanted('a duration above 0') : ms;
};
