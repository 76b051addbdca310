// biome-ignore-all lint/style/noRestrictedGlobals: reads times in logs, not the clock

/** Last time whose year has four digits, in milliseconds since the epoch. */
export const MAX_TIME_MS = 253_402_300_799_999;
const ISO = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d(?::?\d\d)?)?$/;
const NGINX = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})$/;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/**
 * Parses a time in a log field to whole milliseconds since the epoch, or returns undefined. Accepts ISO 8601 (UTC
 * unless it names a zone), nginx's `$time_local`, and numbers since the epoch in s, ms, µs or ns, distinguished by
 * size.
 */
export function parseTimeMs(value: unknown): number | undefined {
  if (typeof value === 'number') return parseEpoch(value);
  if (typeof value !== 'string') return undefined;
  const iso = ISO.exec(value);
  if (iso) return parseIso(iso);
  if (/^\d+(\.\d+)?$/.test(value)) return parseEpoch(Number(value));
  const nginx = NGINX.exec(value);
  return nginx ? parseNginx(nginx) : undefined;
}

/** Parses a number as seconds up to the year 5138, and as milliseconds from 1973 on. */
function parseEpoch(value: number): number | undefined {
  if (!(value > 0)) return undefined;
  if (value < 1e11) return Math.round(value * 1_000);
  if (value < 1e14) return Math.floor(value);
  const timeMs = value < 1e17 ? Math.floor(value / 1e3) : Math.floor(value / 1e6);
  return timeMs > MAX_TIME_MS ? undefined : timeMs;
}

function parseIso(parts: RegExpExecArray): number | undefined {
  const [, year, month, day, hours, minutes, seconds = '0', fraction = '', zone = 'Z'] = parts;
  const ms = Number(fraction.slice(0, 3).padEnd(3, '0'));
  const date = [Number(year), Number(month), Number(day)] as const;
  const timeMs = timeIn(date, [Number(hours), Number(minutes), Number(seconds)], zone);
  return timeMs === undefined ? undefined : timeMs + ms;
}

function parseNginx([, day, month = '', year, hours, minutes, seconds, zone = '']: RegExpExecArray):
  | number
  | undefined {
  const at = MONTHS.indexOf(month);
  if (at < 0) return undefined;
  const date = [Number(year), at + 1, Number(day)] as const;
  return timeIn(date, [Number(hours), Number(minutes), Number(seconds)], zone);
}

type Three = readonly [number, number, number];

/**
 * Combines date and time; undefined if there is no such date or time of day, or it is before the epoch. A leap second
 * is accepted.
 */
function timeIn([year, month, day]: Three, [hours, minutes, seconds]: Three, zone: string): number | undefined {
  if (year < 1_000) return undefined; // `Date.UTC` adds 1900 to years below 100
  const date = new Date(Date.UTC(year, month - 1, day));
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined; // it overflowed
  if (hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const timeMs = date.getTime() + ((hours * 60 + minutes) * 60 + seconds) * 1_000 - zoneMs(zone);
  return timeMs < 0 || timeMs > MAX_TIME_MS - 999 ? undefined : timeMs;
}

function zoneMs(zone: string): number {
  if (zone === 'Z' || zone === '+0000') return 0;
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0');
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2));
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000;
}
