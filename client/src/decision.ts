import type { Reply, ResponseHeader, Status } from './wire/messages.ts';

/**
 * The source of an answer: as named by the service, or the client itself. `client_refusal`: an earlier refusal that
 * still holds. `client_allow`, `client_deny`, `client_local`: there was no answer, see `onError`.
 */
export type DecisionSource = 'client_refusal' | 'client_allow' | 'client_deny' | 'client_local' | (string & {});

/** The state of one limit. Fields that only Weir sends are undefined for other servers. */
export interface LimitState {
  /** The path of the rule, `demo.user`. Only from Weir. */
  readonly rule: string | undefined;
  /** The name of the limit, if its rule has one. */
  readonly name: string | undefined;
  /** Hits per window. Undefined: no limit applies. */
  readonly limit: number | undefined;
  /** The window of `limit`. Undefined: no limit applies, or no unit of the API matches its window. */
  readonly windowMs: number | undefined;
  /** Hits that would still pass. Undefined: no limit applies. */
  readonly remaining: number | undefined;
  /** Until the limit is unspent. From servers other than Weir, in whole seconds. */
  readonly resetMs: number | undefined;
  /**
   * After a refusal: until the request could pass; of a descriptor, until its limit alone would admit it. Only from
   * Weir, where undefined means that it never could.
   */
  readonly retryAfterMs: number | undefined;
}

/** The decision for one descriptor. */
export interface DescriptorDecision extends LimitState {
  readonly ok: boolean;
}

/** A limit that is exceeded and did not refuse, such as one in shadow mode. */
export interface SparedLimit {
  /** The index of its descriptor. */
  readonly descriptor: number;
  /** The path of its rule. */
  readonly rule: string;
  /** The name of the limit, if its rule has one. */
  readonly name: string | undefined;
  /** `5 per minute`. */
  readonly limit: string;
  /**
   * `shadow`: the limit is in shadow mode; `quota`: another quota had room; `service_shadow`: the service is in shadow
   * mode.
   */
  readonly reason: 'shadow' | 'quota' | 'service_shadow' | (string & {});
}

/** The outcome of `limit`. The fields of `LimitState` describe the limit that decided. */
export interface Decision extends LimitState {
  /** Whether the request may proceed. */
  readonly ok: boolean;
  /** How long the service held the request for its turn (`max_delay`). Only from Weir. */
  readonly delayMs: number | undefined;
  /** Only from Weir, or from the client itself. */
  readonly source: DecisionSource | undefined;
  /** One per descriptor, in their order. Empty if the client answered. */
  readonly descriptors: readonly DescriptorDecision[];
  /** The limits that would have refused, in the order of their descriptors. Only from Weir; else empty. */
  readonly wouldRefuse: readonly SparedLimit[];
  /** Headers that the service wants added to the response. */
  readonly headers: readonly ResponseHeader[];
  /** Why there is no answer from the service; `ok` is then determined by `onError`. */
  readonly error: Error | undefined;
}

/** A decision of which only the outcome is known. */
export const bareDecision = (ok: boolean, source: Decision['source'], error?: Error): Decision => ({
  ok,
  ...noLimit,
  delayMs: undefined,
  source,
  descriptors: [],
  wouldRefuse: [],
  headers: [],
  error,
});

/** The state where no limit applies. */
export const noLimit: LimitState = {
  rule: undefined,
  name: undefined,
  limit: undefined,
  windowMs: undefined,
  remaining: undefined,
  resetMs: undefined,
  retryAfterMs: undefined,
};

/** Converts a reply. An unknown code is not a refusal, as in Envoy. */
export function toDecision({ code, statuses, headers, detail }: Reply): Decision {
  const details = Array.isArray(detail?.descriptors) ? detail.descriptors : [];
  const descriptors = statuses.map((status, at) => toState(status, details[at]));
  const decisive = descriptors[findDecisive(statuses)] ?? noLimit;
  const ok = code !== 'OVER_LIMIT';
  return {
    ok,
    rule: asText(detail?.rule) ?? decisive.rule,
    name: decisive.name,
    limit: asNumber(detail?.limit) ?? decisive.limit,
    windowMs: decisive.windowMs,
    remaining: asNumber(detail?.remaining) ?? decisive.remaining,
    resetMs: asNumber(detail?.reset_ms) ?? decisive.resetMs,
    retryAfterMs: ok ? undefined : asNumber(detail?.retry_after_ms),
    delayMs: detail && (asNumber(detail.delay_ms) ?? 0),
    source: asText(detail?.source),
    descriptors,
    wouldRefuse: toSpared(detail?.would_refuse),
    headers,
    error: undefined,
  };
}

/** The status that decided: the first refusal, else the one with the fewest hits left. */
function findDecisive(statuses: readonly Status[]): number {
  let decisive = -1;
  let fewest = Number.POSITIVE_INFINITY;
  for (const [at, { code, limit, remaining }] of statuses.entries()) {
    if (code === 'OVER_LIMIT') return at;
    if (limit && remaining < fewest) {
      decisive = at;
      fewest = remaining;
    }
  }
  return decisive;
}

function toState({ code, limit, remaining, resetMs }: Status, written: unknown): DescriptorDecision {
  // Each field is checked for its type when it is read.
  const detail = typeof written === 'object' && written !== null ? (written as Record<string, unknown>) : {};
  const ok = code !== 'OVER_LIMIT';
  return {
    ok,
    rule: asText(detail.rule),
    name: limit?.name === '' ? undefined : limit?.name,
    limit: limit?.requestsPerUnit,
    windowMs: limit?.windowMs,
    remaining: limit && remaining,
    resetMs: asNumber(detail.reset_ms) ?? resetMs,
    retryAfterMs: ok ? undefined : asNumber(detail.retry_after_ms),
  };
}

/** Reads the limits that would have refused; others than these are left out. */
export function toSpared(written: unknown): readonly SparedLimit[] {
  if (!Array.isArray(written)) return [];
  return written.flatMap((one: Readonly<Record<string, unknown>> | null): SparedLimit[] => {
    const [descriptor, rule] = [asNumber(one?.descriptor), asText(one?.rule)];
    const [limit, reason] = [asText(one?.limit), asText(one?.reason)];
    if (descriptor === undefined || rule === undefined || limit === undefined || reason === undefined) return [];
    return [{ descriptor, rule, name: asText(one?.name), limit, reason }];
  });
}

const asNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;

const asText = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);
