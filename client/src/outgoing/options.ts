import { action, any, having, type OptionKind, object, oneOf, text } from '../../../src/base/options.ts';
import { checkShape } from '../check-options.ts';
import type { Client } from '../client.ts';
import { checkNumber, checkTimeout } from '../options.ts';

/** The number of retries per key: an initial number, plus a share of the requests. */
export interface RetryBudgetOptions {
  /** Retries that each request adds. Default: 0.1. */
  readonly ratio?: number;
  /** Maximum retries saved up, and their initial number. Default: 10. */
  readonly max?: number;
}

/** Options of `weirFetch`. */
export interface FetchOptions {
  /** Shares pauses with all processes that use the same domain. Default: each process pauses on its own. */
  readonly client?: Pick<Client, 'limit'>;
  /** The domain of the rule for pauses. Default: `outgoing`. */
  readonly domain?: string;
  /** How long to wait for Weir. Default: as for the client. */
  readonly timeoutMs?: number;
  /** The unit that pauses: the value of the entry `origin`. Default: the origin of the URL. */
  readonly key?: (url: URL) => string;
  /** Including the first request. Default: 3. */
  readonly maxAttempts?: number;
  /** The total of the waits of a request. Default: 10,000. */
  readonly maxWaitMs?: number;
  /** Maximum pause that a response can cause. Default: 3,600,000. */
  readonly maxPauseMs?: number;
  /** The wait before retry n is random, up to this times 2ⁿ⁻¹. Default: 100. */
  readonly baseBackoffMs?: number;
  /** Default: 10,000. */
  readonly maxBackoffMs?: number;
  /** False: only `maxAttempts` bounds retries. */
  readonly budget?: RetryBudgetOptions | false;
  /**
   * Also retries POST and PATCH: `trust`: those with the header `Idempotency-Key`; `add`: all, adding the header if it
   * is missing. Default: neither is retried.
   */
  readonly idempotencyKey?: 'trust' | 'add';
  /** Default: Node's. */
  readonly fetch?: typeof fetch;
}

/** Counts since the function was created. */
export interface FetchStats {
  readonly requests: number;
  readonly retries: number;
  /** Requests that waited for a pause before they were sent. */
  readonly held: number;
  /** Requests that were not sent because of a pause beyond `maxWaitMs`. */
  readonly notSent: number;
  /** Retries that the budget did not allow. */
  readonly overBudget: number;
  /** Pauses that could not be read from, or written to, Weir. */
  readonly notShared: number;
}

/** Called like `fetch`. */
export interface WeirFetch {
  /**
   * @throws OriginPaused  the request was not sent
   * @throws TypeError  as `fetch`; or the reason of the request's signal, which also ends waits
   */
  (input: string | URL | Request, init?: RequestInit): Promise<Response>;
  stats(): FetchStats;
}

/** A request was not sent: its server has requested a pause that ends later than the request may wait. */
export class OriginPaused extends Error {
  override readonly name = 'OriginPaused';
  /** The paused key: the origin, unless the option `key` is set. */
  readonly key: string;
  /** The time until the pause ends. */
  readonly retryAfterMs: number;

  constructor(key: string, retryAfterMs: number) {
    super(`${key} takes no requests for ${retryAfterMs} ms`);
    this.key = key;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The functions of the process that a fetcher uses. */
export interface Surroundings {
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<unknown>;
  /** On a monotonic clock. */
  readonly nowMs: () => number;
  /** Since 1970. */
  readonly dateMs: () => number;
  /** From 0 to below 1. */
  readonly random: () => number;
}

const MAX_ATTEMPTS = 100;
const MAX_MS = 0x7fff_ffff;
const MAX_BUDGET = 1_000_000;

const shape: Readonly<Record<keyof FetchOptions, OptionKind>> = {
  client: having('limit'),
  domain: text,
  timeoutMs: any,
  key: action,
  maxAttempts: any,
  maxWaitMs: any,
  maxPauseMs: any,
  baseBackoffMs: any,
  maxBackoffMs: any,
  budget: object({ ratio: any, max: any }, { or: [false] }),
  idempotencyKey: oneOf('trust', 'add'),
  fetch: action,
};

export function checkFetchOptions(options: FetchOptions) {
  checkShape(options, shape);
  if (options.timeoutMs !== undefined) checkTimeout(options.timeoutMs);
  const { maxAttempts = 3, maxWaitMs = 10_000, maxPauseMs = 3_600_000 } = options;
  const { baseBackoffMs = 100, maxBackoffMs = 10_000, domain = 'outgoing', idempotencyKey } = options;
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
