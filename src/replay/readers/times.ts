const DAY_MS = 86_400_000;
const ISO = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d(?::?\d\d)?)?$/;
const NGINX = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})$/;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/**
 * The time that a field of a log gives, in whole milliseconds since the epoch; undefined where it gives none. Takes
 * ISO 8601 (UTC where it names no zone), nginx's `$time_local`, and numbers since the epoch in s, ms, µs or ns, by
 * their size.
 */
export function timeMsOf(value: unknown): number | undefined {
  if (typeof value === 'number') return ofEpoch(value);
  if (typeof value !== 'string') return undefined;
  const iso = ISO.exec(value);
  if (iso) return ofIso(iso);
  if (/^\d+(\.\d+)?$/.test(value)) return ofEpoch(Number(value));
  const nginx = NGINX.exec(value);
  return nginx ? ofNginx(nginx) : undefined;
}

/** Until the year 5138 in seconds, and from 1973 on in milliseconds. */
function ofEpoch(value: number): number | undefined {
  if (!(value > 0)) return undefined;
  if (value < 1e11) return Math.round(value * 1_000);
  if (value < 1e14) return Math.floor(value);
  return value < 1e17 ? Math.floor(value / 1e3) : Math.floor(value / 1e6);
}

function ofIso([, year, month, day, hours, minutes, seconds = '0', fraction = '', zone = 'Z']: RegExpExecArray) {
  const days = daysSince1970(Number(year), Number(month), Number(day));
  const ms = Number(fraction.slice(0, 3).padEnd(3, '0'));
  return timeIn(days, Number(hours), Number(minutes), Number(seconds), zone) + ms;
}

function ofNginx([, day, month = '', year, hours, minutes, seconds, zone = '']: RegExpExecArray): number | undefined {
  const at = MONTHS.indexOf(month);
  if (at < 0) return undefined;
  return timeIn(
    daysSince1970(Number(year), at + 1, Number(day)),
    ...([Number(hours), Number(minutes), Number(seconds)] as const),
    zone,
  );
}

const timeIn = (days: number, hours: number, minutes: number, seconds: number, zone: string): number =>
  days * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1_000 - zoneMs(zone);

function zoneMs(zone: string): number {
  if (zone === 'Z' || zone === '+0000') return 0;
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0');
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2));
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000;
}

/** @see https://howardhinnant.github.io/date_algorithms.html#days_from_civil */
function daysSince1970(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  return (
    era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
  );
}
