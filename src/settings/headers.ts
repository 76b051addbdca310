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

/** The header names of LIMIT_IETF_HEADERS. */
const ietfNames = ['ratelimit', 'ratelimit-policy'];

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
  if (!values.LIMIT_IETF_HEADERS) return;
  const names = ['LIMIT_LIMIT_HEADER', 'LIMIT_REMAINING_HEADER', 'LIMIT_RESET_HEADER'] as const;
  const others = ['LIMIT_RETRY_AFTER_HEADERS', 'LIMIT_SOFT_HEADER', 'LIMIT_WOULD_REFUSE_HEADER'] as const;
  for (const name of [...names, ...others])
    for (const header of [values[name] ?? []].flat())
      if (ietfNames.includes(header.toLowerCase()))
        problems.push(`${name} must not be ${header} if LIMIT_IETF_HEADERS is true, which sends that header itself`);
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
