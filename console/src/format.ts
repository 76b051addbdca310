import type { LimitJson } from '../../src/edge/listing/shapes.ts';
import { showMoney } from '../../src/engine/algorithms/money.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const oneDecimal = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** `1,234`, `12.3k`. Below 10: at most one decimal. */
export function count(value: number): string {
  if (value >= 1_000_000) return `${oneDecimal.format(value / 1_000_000)}M`;
  if (value >= 100_000) return `${whole.format(value / 1_000)}k`;
  return value < 10 ? oneDecimal.format(value) : whole.format(value);
}

export const exact = (value: number): string => whole.format(value);

/** A text whose long numbers have separators, but no decimals, dates, ports or parts of paths: `10,000 per minute`. */
export const grouped = (text: string): string =>
  text.replace(/(?<![.:/\w])\d{4,}(?![-\w])/g, (digits) => exact(Number(digits)));

/** A text of the service as the beginning of a sentence. */
export const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** A count, or an amount in billionths of a budget's currency. */
export const amount = (value: number, currency: string | undefined): string =>
  currency === undefined ? exact(value) : showMoney(value, currency);

export const percent = (share: number): string => `${whole.format(share * 100)} %`;

/** A share that may be small: `0.3 %`, `< 0.1 %`. */
export const tenths = (share: number): string =>
  share > 0 && share < 0.001 ? '< 0.1 %' : `${oneDecimal.format(share * 100)} %`;

/** The used share of a limit. May exceed it, since some algorithms count refused hits, too. */
export const usedShare = (share: number): string => (share > 1 ? '> 100 %' : percent(share));

export function bytes(value: number): string {
  if (value < 1_024) return `${value} B`;
  if (value < 1_048_576) return `${oneDecimal.format(value / 1_024)} KiB`;
  if (value < 1_073_741_824) return `${oneDecimal.format(value / 1_048_576)} MiB`;
  return `${oneDecimal.format(value / 1_073_741_824)} GiB`;
}

/** A latency: `0.42 ms`. */
export const millis = (value: number): string =>
  value === 0 ? '–' : value < 10 ? `${value.toFixed(2)} ms` : `${whole.format(value)} ms`;

const spans = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** A duration in its two largest units: `2 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(Math.round(ms), 0)} ms`;
  let left = Math.round(ms / 1_000) * 1_000;
  const parts: string[] = [];
  for (const [unit, size] of spans) {
    if (parts.length === 2) break;
    const number = Math.floor(left / size);
    if (number > 0) parts.push(`${number} ${unit}`);
    else if (parts.length === 1) break;
    left -= number * size;
  }
  return parts.join(' ');
}

const today = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const otherDay = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A time in the reader's zone; with the date, unless it is today. */
export function time(atMs: number): string {
  const isToday = new Date(atMs).toDateString() === new Date().toDateString();
  return (isToday ? today : otherDay).format(atMs);
}

const RFC3339 = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** The times in a sentence of the service in the reader's zone. */
export const localTimes = (text: string): string => text.replace(RFC3339, (one) => time(Date.parse(one)));

const hourToday = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const hourOtherDay = new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: 'numeric', minute: '2-digit' });

/** A time of the last day in the reader's zone: `16:52`, with the weekday unless it is today. */
export function shortTime(atMs: number): string {
  const isToday = new Date(atMs).toDateString() === new Date().toDateString();
  return (isToday ? hourToday : hourOtherDay).format(atMs);
}

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Characters that are invisible, or that affect the display of text around them. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A caller's text, with invisible characters written as `\u202e`. */
export const visible = (text: string): string =>
  text.replace(INVISIBLE, (one) => `\\u${(one.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);

/** `5 per minute`. */
export function limitText(limit: {
  readonly counts?: LimitJson['counts'];
  readonly requests_per_unit: number;
  readonly budget?: string;
  readonly unit?: string;
  readonly unit_multiplier?: number;
  readonly window_ms: number;
  /** Set if hits are reserved first. */
  readonly reserve?: unknown;
  /** Set if the number of slots is estimated. */
  readonly adapt?: unknown;
  /** Set if the limit follows the number of replicas. */
  readonly per_replica?: number;
  readonly replicas?: number;
  readonly penalty?: { readonly block: string; readonly grow?: string };
}): string {
  const { requests_per_unit: requests, unit, unit_multiplier: times = 1, window_ms: windowMs } = limit;
  if (limit.counts === 'slots') return `${limit.adapt === undefined ? '' : 'up to '}${exact(requests)} at once`;
  if (limit.counts === 'allocated') return `${exact(requests)} until given back`;
  const window = unit === undefined ? duration(windowMs) : times === 1 ? unit : `${times} ${unit}s`;
  const { budget = exact(requests), reserve, per_replica: each, replicas = 0, penalty } = limit;
  const more = [
    each === undefined ? '' : ` (${exact(each)} for each of ${exact(replicas)} replicas)`,
    reserve === undefined ? '' : ', reserved',
    penalty === undefined ? '' : `, else blocked for ${penalty.block}${penalty.grow?.replace(/.* up/, '') ?? ''}`,
  ];
  return `${budget} per ${window}${more.join('')}`;
}

export const algorithmText = (name: string): string => name.replaceAll('_', ' ');
