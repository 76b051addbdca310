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
  const { limits, retryAfter } = limitHeaderNames(values);
  const sent = {
    LIMIT_IETF_HEADERS: values.LIMIT_IETF_HEADERS ? ietfNames : [],
    LIMIT_LIMIT_HEADER: limits?.limit ?? [],
    LIMIT_REMAINING_HEADER: limits?.remaining ?? [],
    LIMIT_RESET_HEADER: limits?.reset ?? [],
    LIMIT_RETRY_AFTER_HEADERS: retryAfter,
    LIMIT_SOFT_HEADER: values.LIMIT_SOFT_HEADER,
    LIMIT_WOULD_REFUSE_HEADER: values.LIMIT_WOULD_REFUSE_HEADER,
  };
  const senders = new Map<string, string>(); // by name
  for (const [setting, names] of Object.entries(sent))
    for (const name of [names].flat().filter((one) => one !== '')) {
      const other = senders.get(name.toLowerCase());
      if (other !== undefined) problems.push(`${setting} must not be ${name}, which ${other} sends already`);
      senders.set(name.toLowerCase(), setting);
    }
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
