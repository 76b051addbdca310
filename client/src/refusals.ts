import { BoundedMap } from './bounded-map.ts';
import type { Decision } from './decision.ts';
import type { RefusalOptions } from './options.ts';
import type { LimitRequest, ResponseHeader } from './wire/messages.ts';

const DEFAULT_MAX = 10_000;
const DEFAULT_MAX_MS = 1_000;
/** Servers other than Weir round the time until the reset up to whole seconds. */
const ROUNDING_MS = 1_000;

interface Refusal {
  readonly decision: Decision;
  readonly hits: number;
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Refusals that still hold: a request with the same descriptors and at least as many hits would be refused again, so it
 * is not sent.
 */
export class Refusals {
  readonly #byRequest: BoundedMap<string, Refusal>;
  readonly #maxMs: number;
  readonly #now: () => number;

  constructor({ max, maxMs }: RefusalOptions, now: () => number) {
    this.#byRequest = new BoundedMap(max ?? DEFAULT_MAX);
    this.#maxMs = maxMs ?? DEFAULT_MAX_MS;
    this.#now = now;
  }

  get size(): number {
    return this.#byRequest.size;
  }

  /** The cached refusal of this request, with the remaining times. */
  find(key: string, hits: number): Decision | undefined {
    const refusal = this.#byRequest.get(key);
    if (!refusal || hits < refusal.hits) return undefined;
    const nowMs = this.#now();
    if (nowMs >= refusal.untilMs) {
      this.#byRequest.delete(key);
      return undefined;
    }
    const { decision, fromMs } = refusal;
    const left = (ms: number | undefined) =>
      ms === undefined ? undefined : Math.max(1, Math.ceil(ms - (nowMs - fromMs)));
    return {
      ...decision,
      retryAfterMs: left(decision.retryAfterMs),
      resetMs: left(decision.resetMs),
      unspentMs: left(decision.unspentMs),
      source: 'client_refusal',
      wouldRefuse: [],
      headers: decision.body === undefined ? [] : decision.headers.filter(hasNoTime), // others are outdated
    };
  }

  /** Caches a refusal by the service, if it will hold for a while. */
  record(key: string, { hits }: LimitRequest, decision: Decision): void {
    const holdsMs = Math.min(holdsFor(decision), this.#maxMs);
    if (holdsMs <= 0 || hits <= 0) return;
    const fromMs = this.#now();
    this.#byRequest.set(key, { decision, hits, fromMs, untilMs: fromMs + holdsMs });
  }

  /** Hits were refunded. */
  forget(key: string): void {
    this.#byRequest.delete(key);
  }
}

/** Whether a header is about something else than limits, such as the type of the body. */
const hasNoTime = ({ key }: ResponseHeader): boolean => !/^retry-after$|ratelimit/i.test(key);

/**
 * How long the refusal is certain. A limit whose window matches no unit may be a limit of requests in flight, which end
 * at any time; a refusal by `on_store_failure: deny` ends with the failure.
 */
function holdsFor({ retryAfterMs, resetMs, source, descriptors }: Decision): number {
  const isCertain = descriptors.every(({ ok, windowMs }) => ok || windowMs !== undefined);
  if (!isCertain || source === 'deny') return 0;
  return retryAfterMs ?? (resetMs ?? 0) - ROUNDING_MS;
}

/** A text that is unique to the domain and descriptors. */
export const requestKey = ({ domain, descriptors }: LimitRequest): string => {
  let key = domain;
  for (const entries of descriptors) {
    key += '\x00\x01';
    for (const [name, value] of entries) key += `\x00${name.length}:${name}${value.length}:${value}`;
  }
  return key;
};
