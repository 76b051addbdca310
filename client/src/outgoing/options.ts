import type { Client } from '../client.ts';
import { checkNumber } from '../options.ts';

/** How many requests may be repeated, for each key: so many at first, and a part of the requests later. */
export interface RetryBudgetOptions {
  /** Retries that each request adds. Default: 0.1. */
  readonly ratio?: number;
  /** The most retries that can be saved up, and those at the start. Default: 10. */
  readonly max?: number;
}

/** Options of `weirFetch`. */
export interface FetchOptions {
  /** Shares pauses with all processes that have the same domain. Default: each process pauses by itself. */
  readonly client?: Pick<Client, 'limit'>;
  /** The domain of the rule that holds the pauses. Default: `outgoing`. */
  readonly domain?: string;
  /** How long to wait for Weir. Default: the client's. */
  readonly timeoutMs?: number;
  /** What pauses together: the value of the entry `origin`. Default: the origin of the URL. */
  readonly key?: (url: URL) => string;
  /** The first request included. Default: 3. */
  readonly maxAttempts?: number;
  /** The waits of a request, added up. Default: 10,000. */
  readonly maxWaitMs?: number;
  /** The longest pause that a response can cause. Default: 3,600,000. */
  readonly maxPauseMs?: number;
  /** Attempt n waits for a random time up to this times 2ⁿ⁻¹. Default: 100. */
  readonly baseBackoffMs?: number;
  /** Default: 10,000. */
  readonly maxBackoffMs?: number;
  /** False: only `maxAttempts` bounds retries. */
  readonly budget?: RetryBudgetOptions | false;
  /**
   * Repeats POST and PATCH as well: `trust`: those with the header `Idempotency-Key`; `add`: all, with such a header.
   * Default: neither is repeated.
   */
  readonly idempotencyKey?: 'trust' | 'add';
  /** Default: that of Node. */
  readonly fetch?: typeof fetch;
}

/** Counts since the function was made. */
export interface FetchStats {
  readonly requests: number;
  readonly retries: number;
  /** Requests that have waited for a pause before they were sent. */
  readonly held: number;
  /** Requests that were not sent, because of a pause beyond `maxWaitMs`. */
  readonly notSent: number;
  /** Retries that the budget did not allow. */
  readonly overBudget: number;
  /** Pauses that were not read from, or written to, Weir. */
  readonly notShared: number;
}

/** Called like `fetch`. */
export interface WeirFetch {
  /**
   * @throws OriginPaused  the request was not sent
   * @throws TypeError  as `fetch`; or the reason of the request's signal, which ends waits as well
   */
  (input: string | URL | Request, init?: RequestInit): Promise<Response>;
  stats(): FetchStats;
}

/** A request was not sent: what it calls has asked for a pause that ends later than the request may wait. */
export class OriginPaused extends Error {
  override readonly name = 'OriginPaused';
  /** What pauses: the origin, unless the option `key` says otherwise. */
  readonly key: string;
  /** Until the pause is over. */
  readonly retryAfterMs: number;

  constructor(key: string, retryAfterMs: number) {
    super(`${key} takes no requests for ${retryAfterMs} ms`);
    this.key = key;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What a fetcher needs of the process it runs in. */
export interface Surroundings {
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<unknown>;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Since 1970. */
  readonly dateMs: () => number;
  /** From 0 up to, but not, 1. */
  readonly random: () => number;
}

const MAX_ATTEMPTS = 100;
const MAX_MS = 0x7fff_ffff;
const MAX_BUDGET = 1_000_000;

export function checkFetchOptions(options: FetchOptions) {
  const { maxAttempts = 3, maxWaitMs = 10_000, maxPauseMs = 3_600_000 } = options;
  const { baseBackoffMs = 100, maxBackoffMs = 10_000, domain = 'outgoing', idempotencyKey } = options;
  if (idempotencyKey !== undefined && !['trust', 'add'].includes(idempotencyKey))
    throw new TypeError(`idempotencyKey must be 'trust' or 'add', got ${String(idempotencyKey)}`);
  const { ratio = 0.1, max = 10 } = options.budget || {};
  return {
    domain,
    idempotencyKey,
    maxAttempts: checkNumber('maxAttempts', maxAttempts, [1, MAX_ATTEMPTS]),
    maxWaitMs: checkNumber('maxWaitMs', maxWaitMs, [0, MAX_MS]),
    maxPauseMs: checkNumber('maxPauseMs', maxPauseMs, [0, MAX_MS]),
    baseBackoffMs: checkNumber('baseBackoffMs', baseBackoffMs, [1, MAX_MS]),
    maxBackoffMs: checkNumber('maxBackoffMs', maxBackoffMs, [1, MAX_MS]),
    budget: options.budget !== false && {
      ratio: checkNumber('budget.ratio', ratio, [0, 1]),
      max: checkNumber('budget.max', max, [0, MAX_BUDGET]),
    },
  };
}
