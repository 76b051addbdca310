import { BoundedMap } from './bounded-map.ts';
import { bareDecision, type Decision, type LimitState } from './decision.ts';
import type { LimitRequest } from './wire/messages.ts';

/** The most limits, and the most counters, in memory. */
const MAX_ENTRIES = 10_000;

interface Counter {
  readonly windowStartMs: number;
  readonly spent: number;
}

/**
 * `onError: 'local'`: counts in fixed windows, under the last limit that the service has sent for the same descriptors
 * or, if none, for descriptors with the same keys. It is not exact, but a bound while the service is unreachable.
 */
export class LocalLimits {
  readonly #byKey = new BoundedMap<string, LimitState>(MAX_ENTRIES);
  readonly #byShape = new BoundedMap<string, LimitState>(MAX_ENTRIES);
  readonly #counters = new BoundedMap<string, Counter>(MAX_ENTRIES);
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Records the limits of an answer. */
  record(key: string, request: LimitRequest, decision: Decision): void {
    const shape = shapeOf(request);
    if (this.#byShape.get(shape)?.limit !== decision.limit) this.#byShape.set(shape, decision);
    this.#byKey.set(key, decision);
  }

  decide(key: string, request: LimitRequest, error: Error): Decision {
    const seen = this.#byKey.get(key) ?? this.#byShape.get(shapeOf(request));
    const { rule, name, limit, windowMs } = seen ?? {};
    if (limit === undefined || windowMs === undefined) return bareDecision(true, 'client_local', error);
    const nowMs = this.#now();
    const current = this.#counters.get(key);
    const isCurrent = current !== undefined && nowMs < current.windowStartMs + windowMs;
    const { windowStartMs, spent } = isCurrent ? current : { windowStartMs: nowMs, spent: 0 };
    const ok = spent + request.hits <= limit;
    const spentNow = ok ? Math.max(0, spent + request.hits) : spent;
    if (ok) this.#counters.set(key, { windowStartMs, spent: spentNow });
    const resetMs = Math.ceil(windowStartMs + windowMs - nowMs);
    return {
      ...bareDecision(ok, 'client_local', error),
      rule,
      name,
      limit,
      windowMs,
      remaining: Math.max(0, limit - spentNow),
      resetMs,
      retryAfterMs: ok ? undefined : resetMs,
    };
  }
}

/** The part that descriptors of one rule share: the domain and the keys. */
const shapeOf = ({ domain, descriptors }: LimitRequest): string =>
  JSON.stringify([domain, ...descriptors.map((entries) => entries.map(([key]) => key))]);
