import { BoundedMap } from './bounded-map.ts';
import { bareDecision, type Decision, type LimitState } from './decision.ts';
import { checkNumber, type LocalLimitOptions } from './options.ts';
import type { LimitRequest } from './wire/messages.ts';

/** Maximum limits in memory, and as many counters. */
const MAX_ENTRIES = 10_000;

const DEFAULT_REQUESTS = 5;
const DEFAULT_WINDOW_MS = 1_000;

/** A limit of the service, or the one of the options. */
type LocalLimit = Pick<LimitState, 'rule' | 'name' | 'limit' | 'windowMs'>;

interface Counter {
  readonly windowStartMs: number;
  readonly spent: number;
}

/** Throws a TypeError if the option is invalid. */
export function checkLocalLimit({ requests, windowMs }: LocalLimitOptions = {}): Required<LocalLimitOptions> {
  return {
    requests: checkNumber('local.requests', requests ?? DEFAULT_REQUESTS, [0, Number.MAX_SAFE_INTEGER]),
    windowMs: checkNumber('local.windowMs', windowMs ?? DEFAULT_WINDOW_MS, [1, Number.MAX_SAFE_INTEGER]),
  };
}

/**
 * `onError: 'local'`: counts in fixed windows, under the last limit that the service has sent for the same descriptors
 * or, if none, for descriptors with the same keys; else under the limit of the options. It is not exact, but a bound
 * while the service is unreachable.
 */
export class LocalLimits {
  readonly #byKey = new BoundedMap<string, LocalLimit>(MAX_ENTRIES);
  readonly #byShape = new BoundedMap<string, LocalLimit>(MAX_ENTRIES);
  readonly #counters = new BoundedMap<string, Counter>(MAX_ENTRIES);
  readonly #unknown: Required<LocalLimitOptions>;
  readonly #now: () => number;

  constructor(unknown: Required<LocalLimitOptions>, now: () => number) {
    this.#unknown = unknown;
    this.#now = now;
  }

  /** Records the limit of an answer, if it is not that of the last answer for these descriptors. */
  record(key: string, request: LimitRequest, decision: Decision): void {
    if (isSame(this.#byKey.get(key), decision)) return;
    this.#byKey.set(key, toLimit(decision));
    const shape = shapeKey(request);
    const isUnlimited = decision.limit === undefined; // the exception among the descriptors of a rule
    if (!isUnlimited || !this.#byShape.get(shape)) this.#byShape.set(shape, toLimit(decision));
  }

  decide(key: string, request: LimitRequest, error: Error): Decision {
    const known = this.#byKey.get(key) ?? this.#byShape.get(shapeKey(request));
    if (known && known.limit === undefined) return bareDecision(true, 'client_local', error);
    const { rule, name, limit = this.#unknown.requests } = known ?? {};
    const windowMs = known?.windowMs ?? this.#unknown.windowMs;
    const hits = known ? request.hits : Math.min(Math.max(request.hits, 0), 1);
    const nowMs = this.#now();
    const current = this.#counters.get(key);
    const isCurrent = current !== undefined && nowMs < current.windowStartMs + windowMs;
    const { windowStartMs, spent } = isCurrent ? current : { windowStartMs: nowMs, spent: 0 };
    const ok = spent + hits <= limit;
    const spentNow = ok ? Math.max(0, spent + hits) : spent;
    if (ok) this.#counters.set(key, { windowStartMs, spent: spentNow });
    const resetMs = Math.ceil(windowStartMs + windowMs - nowMs);
    return {
      ...bareDecision(ok, 'client_local', error),
      limited: true,
      because: undefined,
      rule,
      name,
      limit,
      windowMs,
      remaining: Math.max(0, limit - spentNow),
      resetMs,
      unspentMs: resetMs,
      retryAfterMs: ok ? undefined : resetMs,
    };
  }
}

const toLimit = ({ rule, name, limit, windowMs }: LocalLimit): LocalLimit => ({ rule, name, limit, windowMs });

const isSame = (one: LocalLimit | undefined, other: LocalLimit): boolean =>
  one !== undefined && one.limit === other.limit && one.windowMs === other.windowMs && one.rule === other.rule;

/** The part that descriptors of one rule share: the domain and the keys. */
function shapeKey({ domain, descriptors }: LimitRequest): string {
  let shape = domain;
  for (const entries of descriptors) {
    shape += '\x00\x01';
    for (const [key] of entries) shape += `\x00${key.length}:${key}`;
  }
  return shape;
}
