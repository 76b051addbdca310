import { pauseAskedBy } from './advice.ts';
import { RetryBudget } from './budget.ts';
import { checkFetchOptions, type FetchOptions, OriginPaused, type Surroundings, type WeirFetch } from './options.ts';
import { Pauses } from './pauses.ts';
import { describe, type OutgoingRequest } from './replay.ts';
import { SharedPauses } from './shared-pauses.ts';

/** Statuses after which the same request may succeed. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** How often a pause is read again, in case it was extended, or ended in Weir. */
const MAX_SLEEP_MS = 1_000;

/** A request with all its attempts. */
interface Sending extends OutgoingRequest {
  readonly key: string;
  waitedMs: number;
}

/** The outcome of an attempt. */
type Attempt = { readonly response: Response } | { readonly error: unknown };

export function openFetch(options: FetchOptions, surroundings: Surroundings): WeirFetch {
  const fetcher = new Fetcher(options, surroundings);
  const send = (input: string | URL | Request, init?: RequestInit) => fetcher.send(input, init);
  return Object.assign(send, { stats: () => fetcher.stats() });
}

class Fetcher {
  readonly #options: ReturnType<typeof checkFetchOptions>;
  readonly #surroundings: Surroundings;
  readonly #keyOf: (url: URL) => string;
  readonly #budget: RetryBudget | undefined;
  readonly #shared: SharedPauses | undefined;
  readonly #pauses: Pauses;
  readonly #counts = { requests: 0, retries: 0, held: 0, notSent: 0, overBudget: 0 };

  constructor(options: FetchOptions, surroundings: Surroundings) {
    const checked = checkFetchOptions(options);
    const { client, timeoutMs, key = ({ origin }) => origin } = options;
    this.#options = checked;
    this.#surroundings = { ...surroundings, ...(options.fetch && { fetch: options.fetch }) };
    this.#keyOf = key;
    this.#budget = checked.budget ? new RetryBudget(checked.budget) : undefined;
    this.#shared = client && new SharedPauses({ client, domain: checked.domain, timeoutMs }, surroundings.nowMs);
    this.#pauses = new Pauses(this.#shared, surroundings.nowMs);
  }

  stats() {
    return { ...this.#counts, notShared: this.#shared?.failed ?? 0 };
  }

  async send(input: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
    const request = describe(input, init, this.#options.idempotencyKey);
    const sending: Sending = { ...request, key: this.#keyOf(request.url), waitedMs: 0 };
    this.#counts.requests++;
    this.#budget?.deposit(sending.key);
    for (let attempt = 1; ; attempt++) {
      await this.#waitForPause(sending);
      const result = await this.#attempt(input, sending);
      const delayMs = await this.#delayAfter(sending, result, attempt);
      if (delayMs === undefined) {
        if ('error' in result) throw result.error;
        return result.response;
      }
      if ('response' in result) await result.response.body?.cancel();
      this.#counts.retries++;
      await this.#wait(sending, delayMs);
    }
  }

  async #attempt(input: string | URL | Request, { init, signal }: Sending): Promise<Attempt> {
    try {
      return { response: await this.#surroundings.fetch(input, init) };
    } catch (error) {
      if (signal?.aborted) throw error;
      return { error };
    }
  }

  /** Waits until the key accepts requests, plus a random time, so that not all requests are sent at once. */
  async #waitForPause(sending: Sending): Promise<void> {
    for (let isHeld = false; ; isHeld = true) {
      const leftMs = await this.#pauses.leftMs(sending.key);
      if (leftMs === 0) return;
      const delayMs = leftMs + this.#backoff(1);
      if (!this.#mayWait(sending, delayMs)) {
        this.#counts.notSent++;
        throw new OriginPaused(sending.key, leftMs);
      }
      if (!isHeld) this.#counts.held++;
      await this.#wait(sending, leftMs > MAX_SLEEP_MS ? MAX_SLEEP_MS : delayMs);
    }
  }

  /** Records the requested pause. @returns  the wait before the next attempt, or undefined if there is none */
  async #delayAfter(sending: Sending, result: Attempt, attempt: number): Promise<number | undefined> {
    const { key, mayRepeat } = sending;
    const backoffMs = this.#backoff(attempt);
    const pauseMs = await this.#pauseAfter(key, result, backoffMs);
    const mayPass = 'response' in result ? passing.has(result.response.status) : isNetworkError(result.error);
    if (!mayPass || !mayRepeat || attempt >= this.#options.maxAttempts) return undefined;
    const delayMs = pauseMs + backoffMs;
    if (!this.#mayWait(sending, delayMs)) return undefined;
    if (!this.#budget || this.#budget.withdraw(key)) return delayMs;
    this.#counts.overBudget++;
    return undefined;
  }

  /** @returns  the rest of the pause that the response requests */
  async #pauseAfter(key: string, result: Attempt, backoffMs: number): Promise<number> {
    if ('error' in result) return 0;
    const { dateMs } = this.#surroundings;
    const requestedMs = pauseAskedBy(result.response, dateMs());
    if (requestedMs === undefined) {
      // Other requests wait as long as this one, since the limit has no time.
      if (result.response.status === 429) await this.#pauses.extend(key, backoffMs);
      return 0;
    }
    const pauseMs = Math.min(requestedMs, this.#options.maxPauseMs);
    await this.#pauses.extend(key, pauseMs);
    return pauseMs;
  }

  /** @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ (full jitter) */
  #backoff(attempt: number): number {
    const { baseBackoffMs, maxBackoffMs } = this.#options;
    return this.#surroundings.random() * Math.min(maxBackoffMs, baseBackoffMs * 2 ** (attempt - 1));
  }

  #mayWait({ waitedMs }: Sending, delayMs: number): boolean {
    return waitedMs + delayMs <= this.#options.maxWaitMs;
  }

  async #wait(sending: Sending, delayMs: number): Promise<void> {
    sending.waitedMs += delayMs;
    const { signal } = sending;
    try {
      await this.#surroundings.sleep(Math.ceil(delayMs), signal);
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  }
}

/** Node's `fetch` sets a cause if a connection fails, and none if its arguments are invalid. */
const isNetworkError = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'cause' in error && error.cause !== undefined;
