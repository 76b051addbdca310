import { type Item, parseDictionary, parseList } from 'structured-headers';

const SECOND_MS = 1_000;

/** Larger values of `X-RateLimit-Reset` are times since 1970, which are accepted up to this far in the future. */
const MAX_RESET_SECONDS = 31 * 86_400;

/**
 * Reads how long a response asks its clients to wait, if it does. `Retry-After` takes precedence over the fields that
 * describe limits, which count only if nothing is left of a limit. Malformed fields are ignored.
 *
 * @param dateMs  the current time since 1970, for dates; the header `Date` takes precedence
 */
export function pauseAskedBy({ status, headers }: Response, dateMs: number): number | undefined {
  const nowMs = httpDate(headers.get('date')) ?? dateMs;
  const retryAfterMs = status === 429 || status === 503 ? retryAfter(headers, nowMs) : undefined;
  return retryAfterMs ?? ietf(headers) ?? draft(headers) ?? legacy(headers, nowMs);
}

/** `retry-after-ms`, as some APIs send it, is more exact. @see https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3 */
function retryAfter(headers: Headers, nowMs: number): number | undefined {
  const exact = headers.get('retry-after-ms') ?? '';
  if (/^\d{1,15}(\.\d{1,9})?$/.test(exact)) return Math.ceil(Number(exact));
  const text = headers.get('retry-after');
  if (text === null) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text) * SECOND_MS;
  const untilMs = httpDate(text);
  return untilMs === undefined ? undefined : Math.max(0, untilMs - nowMs);
}

/** An HTTP date: in GMT, or in the format of asctime, which has no zone. */
function httpDate(text: string | null): number | undefined {
  const hasZone = /^[A-Z][a-z]{2,8}, .* GMT$/.test(text ?? '');
  const isAsctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/.test(text ?? '');
  const ms = hasZone || isAsctime ? Date.parse(isAsctime ? `${text} GMT` : `${text}`) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * `RateLimit: "burst";r=0;t=30`. Limits on bytes and on concurrent requests do not require a wait.
 *
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
function ietf(headers: Headers): number | undefined {
  const limits = parsed(parseList, headers.get('ratelimit'))?.filter(isString);
  if (!limits) return undefined;
  const policies = parsed(parseList, headers.get('ratelimit-policy')) ?? [];
  const findUnit = (name: unknown) => policies.find(([policy]) => policy === name)?.[1].get('qu') ?? 'requests';
  const waits = limits.map(([name, parameters]) => {
    const isSpent = parameters.get('r') === 0 && findUnit(name) === 'requests';
    return isSpent ? asSeconds(parameters.get('t')) : undefined;
  });
  return longest(waits);
}

const isString = (member: { readonly 0: unknown }): boolean => typeof member[0] === 'string';

/** Draft 7: `RateLimit: limit=10, remaining=0, reset=30`. */
function draft(headers: Headers): number | undefined {
  const fields = parsed(parseDictionary, headers.get('ratelimit'));
  return fields?.get('remaining')?.[0] === 0 ? asSeconds(fields.get('reset')?.[0]) : undefined;
}

/** The names of fields with what is left of a limit, and with the time until it is reset. */
const legacyFields: readonly (readonly [remaining: string, reset: string])[] = [
  ['ratelimit-remaining', 'ratelimit-reset'],
  ['x-ratelimit-remaining', 'x-ratelimit-reset'],
  ['x-rate-limit-remaining', 'x-rate-limit-reset'],
  ...['requests', 'tokens'].map((unit) => [`x-ratelimit-remaining-${unit}`, `x-ratelimit-reset-${unit}`] as const),
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map(
    (unit) => [`anthropic-ratelimit-${unit}-remaining`, `anthropic-ratelimit-${unit}-reset`] as const,
  ),
];

/**
 * Each filter of a chain, such as two rate limit filters of Envoy 1.40, appends its own value to both fields. Nothing is
 * ever left of a limit of 0, which express-slow-down 3.1 reports although it refuses no request.
 */
function legacy(headers: Headers, nowMs: number): number | undefined {
  const valuesOf = (name: string): readonly string[] => (headers.get(name) ?? '').split(/\s*,\s*/);
  const waits = legacyFields.flatMap(([remaining, reset]) => {
    const [resets, limits] = [valuesOf(reset), valuesOf(remaining.replace('remaining', 'limit'))];
    return valuesOf(remaining).map((left, i) =>
      isZero(left) && !isZero(limits[i]) ? untilReset(resets[i] ?? '', nowMs) : undefined,
    );
  });
  return longest(waits);
}

const isZero = (text: string | undefined): boolean => /^0+$/.test(text ?? '');

/**
 * Some servers send seconds, others a time since 1970 in seconds or milliseconds, a duration, or an RFC 3339 date.
 * Seconds may have decimals, as those of koa-ratelimit 6.0 in memory and slowapi 0.1.10.
 */
function untilReset(text: string, nowMs: number): number | undefined {
  if (!/^\d{1,15}(\.\d{1,9})?$/.test(text)) return duration(text) ?? untilDate(text, nowMs);
  const reset = Number(text);
  if (reset <= MAX_RESET_SECONDS) return Math.ceil(reset * SECOND_MS); // the size shows the format
  for (const untilMs of [Math.ceil(reset * SECOND_MS), Math.ceil(reset)])
    if (Math.abs(untilMs - nowMs) <= MAX_RESET_SECONDS * SECOND_MS) return Math.max(0, untilMs - nowMs);
  return undefined;
}

const durationUnits: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: SECOND_MS, ms: 1 };

/** Durations as in OpenAI's fields: `6m0s`, `1.5s`, `20ms`. */
function duration(text: string): number | undefined {
  if (!/^(\d{1,9}(\.\d{1,9})?(ms|[dhms]))+$/.test(text)) return undefined;
  const parts = text.matchAll(/([\d.]+)(ms|[dhms])/g);
  return Math.ceil(
    [...parts].reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnits[unit] ?? 0), 0),
  );
}

function untilDate(text: string, nowMs: number): number | undefined {
  const isDate = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text);
  const untilMs = isDate ? Date.parse(text) : Number.NaN;
  return Number.isNaN(untilMs) ? undefined : Math.max(0, untilMs - nowMs);
}

const asSeconds = (value: Item[0] | unknown): number | undefined =>
  typeof value === 'number' && value >= 0 ? value * SECOND_MS : undefined;

function longest(waits: readonly (number | undefined)[]): number | undefined {
  const known = waits.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function parsed<T>(parse: (text: string) => T, text: string | null): T | undefined {
  if (text === null) return undefined;
  try {
    return parse(text);
  } catch {
    return undefined; // malformed: ignored
  }
}
