import { parseAddressBlock } from '../engine/rules/read/address-block.ts';

/** Parses the text of one variable. */
export type Parse<T> = (text: string) => T | Mismatch;

/** A text that does not match its kind. */
export class Mismatch {
  /** Description of the expected text. */
  readonly expected: string;
  constructor(expected: string) {
    this.expected = expected;
  }
}

export const text: Parse<string> = (written) => written;
export const textNotEmpty: Parse<string> = (written) => (written === '' ? new Mismatch('a non-empty text') : written);

/** An IPv6 address may be in brackets, as in URLs. */
export const host: Parse<string> = (written) => written.replace(/^\[(.*)\]$/, '$1');

/** A boolean in Go's syntax. */
export const flag: Parse<boolean> = (written) => {
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(written)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(written)) return false;
  return new Mismatch('true or false');
};

/** Go's integers, whose prefix says the base, without the sign. */
const INTEGER = /^(0|[1-9](_?\d)*|0[oO]?(_?[0-7])+|0[xX](_?[\da-fA-F])+|0[bB](_?[01])+)$/;

/** An integer in Go's syntax: `0x1F` is 31, `010` is 8, and `1_000` is 1000. */
export const integer =
  (from: number, to: number, what: string): Parse<number> =>
  (written) => {
    const [, sign, digits = ''] = /^([+-]?)(.*)$/s.exec(written) ?? [];
    const plain = digits.replaceAll('_', '').replace(/^0(?=[0-7])/, '0o');
    const value = INTEGER.test(digits) ? Number(plain) * (sign === '-' ? -1 : 1) : Number.NaN;
    return value >= from && value <= to ? value : new Mismatch(`${what} from ${from} to ${to}`);
  };

export const port = integer(0, 65_535, 'a port');

/** A decimal number in Go's syntax. */
export const number: Parse<number> = (written) => {
  const value = /^[+-]?(\d(_?\d)*\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(written)
    ? Number(written.replaceAll('_', ''))
    : Number.NaN;
  return Number.isFinite(value) ? value : new Mismatch('a number');
};

const ratio: Parse<number> = (written) => {
  const value = number(written);
  return typeof value === 'number' && value >= 0 && value <= 1 ? value : new Mismatch('a number from 0 to 1');
};

/** Larger numbers count as 1, as in envoyproxy/ratelimit. */
export const cappedRatio: Parse<number> = (written) => {
  const value = number(written);
  return typeof value === 'number' && value >= 0 ? Math.min(value, 1) : new Mismatch('a number from 0 to 1');
};

/** One of these words, in any case. */
export const choice =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) => {
    const found = choices.find((one) => one.toLowerCase() === written.toLowerCase());
    return found ?? new Mismatch(`one of ${choices.join(', ')}`);
  };

/** A fraction above 0 and up to 1. */
export const partOfAll: Parse<number> = (written) => {
  const part = ratio(written);
  return typeof part === 'number' && part > 0 ? part : new Mismatch('a number above 0 and up to 1');
};

/** Comma-separated words, trimmed. */
export const commaSeparated = (written: string): readonly string[] => list(written).map((one) => one.trim());

/** Comma-separated words; blanks are significant. */
export const list = (written: string): readonly string[] => (written === '' ? [] : written.split(','));

/** Comma-separated pairs of a key and a value, with exactly one mark each. */
export const pairs =
  (mark: ':' | '='): Parse<ReadonlyMap<string, string>> =>
  (written) => {
    const parts = list(written.trim()).map((pair) => pair.split(mark));
    if (parts.some(({ length }) => length !== 2)) return new Mismatch(`comma-separated key${mark}value pairs`);
    return new Map(parts.map(([key = '', value = '']) => [key, value]));
  };

/** The name of an HTTP header without secrets, in lower case. */
export const headerName: Parse<string> = (written) =>
  /^(?!(authorization|cookie)$)[\w-]*$/i.test(written)
    ? written.toLowerCase()
    : new Mismatch('the name of a header such as x-auth-request-email');

/** Comma-separated IP addresses, and blocks of them. */
export const addressBlocks: Parse<readonly string[]> = (written) => {
  const blocks = commaSeparated(written);
  return blocks.every((one) => parseAddressBlock(one) !== undefined)
    ? blocks
    : new Mismatch('comma-separated addresses such as 10.0.0.7,10.1.0.0/16');
};

export const httpUrl: Parse<string> = (written) =>
  /^https?:$/.test(URL.parse(written)?.protocol ?? '') ? written : new Mismatch('an http or https URL');

export const postgresUrl: Parse<string> = (written) =>
  /^postgres(ql)?:$/.test(URL.parse(written)?.protocol ?? '')
    ? written
    : new Mismatch('a URL such as postgres://user:password@host:5432/database');

/** Comma-separated labels of Prometheus: `job=weir,namespace=shop`. */
export const labels: Parse<ReadonlyMap<string, string>> = (written) => {
  const read = pairs('=')(written);
  const areNamed = read instanceof Map && [...read.keys()].every((name) => /^[a-zA-Z_]\w*$/.test(name));
  return areNamed ? read : new Mismatch('comma-separated labels such as job=weir,namespace=shop');
};

/** Maximum delay of Node's timers. */
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
  const unsigned = written.replace(/^\+/, '');
  if (unsigned === '0') return 0;
  const parts = [...unsigned.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
  const isComplete = parts.length > 0 && parts.map(([part]) => part).join('') === unsigned;
  if (!isComplete) return new Mismatch('a duration such as 150ms, 10s or 1h30m');
  const exactMs = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitMs[unit] ?? 0), 0);
  const ms = Math.ceil(Math.round(exactMs * 1e6) / 1e6); // rounds to the nanosecond first, so that 16.1 s is not 16,101 ms
  return ms <= MAX_TIMER_MS ? ms : new Mismatch(`a duration of at most ${MAX_TIMER_MS} ms`);
};

/** A duration above 0. */
export const someDurationMs: Parse<number> = (written) => {
  const ms = durationMs(written);
  return ms === 0 ? new Mismatch('a duration above 0') : ms;
};
