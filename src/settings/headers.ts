import type { Values } from './table.ts';

/** The header names of each LIMIT_HEADER_STYLE. */
const styles = {
  ratelimit: {
    limits: { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' },
    retryAfter: [],
  },
  'x-ratelimit': {
    limits: { limit: 'X-RateLimit-Limit', remaining: 'X-RateLimit-Remaining', reset: 'X-RateLimit-Reset' },
    retryAfter: ['X-RateLimit-Retry-After'],
  },
} as const;

/** Headers for one limit, or for the limits of all descriptors; `limits` is undefined if they are disabled. */
export function limitHeaderNames(values: Values) {
  const { limits, retryAfter } = styles[values.LIMIT_HEADER_STYLE];
  const isEnabled = values.LIMIT_RESPONSE_HEADERS_ENABLED;
  const named = {
    limit: values.LIMIT_LIMIT_HEADER ?? limits.limit,
    remaining: values.LIMIT_REMAINING_HEADER ?? limits.remaining,
    reset: values.LIMIT_RESET_HEADER ?? limits.reset,
  };
  return {
    limits: isEnabled ? named : undefined,
    retryAfter: values.LIMIT_RETRY_AFTER_HEADERS ?? (isEnabled ? retryAfter : []),
  };
}

/** Refuses two headers with the same name, which would form one list that no client could parse. */
export function checkHeaders(values: Values, problems: string[]): void {
  const settings = new Map<string, string>();
  for (const [setting, header] of sentHeaders(values)) {
    const other = settings.get(header.toLowerCase());
    if (other === setting) problems.push(`${setting} must list each header once, got ${header} twice`);
    else if (other !== undefined)
      problems.push(`${setting} must not be ${header}, the header of ${other}: a client would receive both as one`);
    settings.set(header.toLowerCase(), setting);
  }
}

/** All headers that answers may have, each with the setting that names it. */
function sentHeaders(values: Values): readonly (readonly [setting: string, header: string])[] {
  const { limits, retryAfter } = limitHeaderNames(values);
  const { LIMIT_SOFT_HEADER: soft, LIMIT_WOULD_REFUSE_HEADER: wouldRefuse } = values;
  const named: Readonly<Record<string, readonly string[]>> = {
    LIMIT_IETF_HEADERS: values.LIMIT_IETF_HEADERS ? ['RateLimit-Policy', 'RateLimit'] : [],
    LIMIT_LIMIT_HEADER: limits ? [limits.limit] : [],
    LIMIT_REMAINING_HEADER: limits ? [limits.remaining] : [],
    LIMIT_RESET_HEADER: limits ? [limits.reset] : [],
    LIMIT_RETRY_AFTER_HEADERS: retryAfter,
    LIMIT_SOFT_HEADER: soft === '' ? [] : [soft],
    LIMIT_WOULD_REFUSE_HEADER: wouldRefuse === '' ? [] : [wouldRefuse],
  };
  return Object.entries(named).flatMap(([setting, headers]) => headers.map((header) => [setting, header] as const));
}

/** Warns of headers for clients without the one that most of them read; an empty list of headers is taken as intended. */
export function headerWarnings(values: Values): readonly string[] {
  const { limits, retryAfter } = limitHeaderNames(values);
  if (limits === undefined && !values.LIMIT_IETF_HEADERS) return [];
  if (values.LIMIT_RETRY_AFTER_HEADERS?.length === 0) return [];
  if (retryAfter.some((name) => name.toLowerCase() === 'retry-after')) return [];
  const enabled = limits === undefined ? 'LIMIT_IETF_HEADERS' : 'LIMIT_RESPONSE_HEADERS_ENABLED';
  return [`${enabled} is true without LIMIT_RETRY_AFTER_HEADERS=Retry-After: most clients will retry too early`];
}
