import type { Reply, ResponseHeader, Status } from './wire/messages.ts';

/**
 * The source of an answer: as named by the service, or the client itself. `client_refusal`: an earlier refusal that
 * still holds. `client_allow`, `client_deny`, `client_local`: there was no answer, see `onError`.
 */
export type DecisionSource = 'client_refusal' | 'client_allow' | 'client_deny' | 'client_local' | (string & {});

/** Why no limit applied. Servers other than Weir do not distinguish unknown domains. */
export type NotLimited = 'no rule matches' | 'no rules for the domain' | 'the rule is unlimited' | 'no answer';

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
  /**
   * Until a request can pass that cannot pass now, else until more hits can. From servers other than Weir, in whole
   * seconds, and often until the limit is unspent.
   */
  readonly resetMs: number | undefined;
  /** Until the limit is unspent. Only from Weir. */
  readonly unspentMs?: number | undefined;
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
  /** Whether a limit applied to one of the descriptors. */
  readonly limited: boolean;
  /** Why no limit applied; undefined if one did. */
  readonly because: NotLimited | undefined;
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
  /** The body of the response to a refused request, if its rule has one; `headers` have its content type. */
  readonly body?: string | undefined;
  /** Why there is no answer from the service; `ok` is then determined by `onError`. */
  readonly error: Error | undefined;
}

/** A decision of which only the outcome is known. @internal */
export const bareDecision = (ok: boolean, source: Decision['source'], error?: Error): Decision => ({
  ok,
  limited: false,
  because: 'no answer',
  ...noLimit,
  delayMs: undefined,
  source,
  descriptors: [],
  wouldRefuse: [],
  headers: [],
  error,
});

/** The state where no limit applies. @internal */
export const noLimit: LimitState = {
  rule: undefined,
  name: undefined,
  limit: undefined,
  windowMs: undefined,
  remaining: undefined,
  resetMs: undefined,
  retryAfterMs: undefined,
};

/** Converts a reply. An unknown code is not a refusal, as in Envoy. @internal */
export function toDecision({ code, statuses, headers, body, detail }: Reply): Decision {
  const details = Array.isArray(detail?.descriptors) ? detail.descriptors : [];
  const descriptors = statuses.map((status, at) => toState(status, details[at]));
  const decisive = descriptors[findDecisive(statuses)] ?? noLimit;
  const ok = code !== 'OVER_LIMIT';
  const limited = descriptors.some(({ limit }) => limit !== undefined);
  return {
    ok,
    limited,
    because: limited ? undefined : whyNotLimited(statuses, details),
    rule: asText(detail?.rule) ?? decisive.rule,
    name: decisive.name,
    limit: asNumber(detail?.limit) ?? decisive.limit,
    windowMs: decisive.windowMs,
    remaining: asNumber(detail?.remaining) ?? decisive.remaining,
    resetMs: asNumber(detail?.reset_ms) ?? decisive.resetMs,
    unspentMs: asNumber(detail?.unspent_ms) ?? decisive.unspentMs,
    retryAfterMs: ok ? undefined : asNumber(detail?.retry_after_ms),
    delayMs: detail && (asNumber(detail.delay_ms) ?? 0),
    source: asText(detail?.source),
    descriptors,
    wouldRefuse: toSpared(detail?.would_refuse),
    headers,
    ...(body !== undefined && { body }),
    error: undefined,
  };
}

/** Whether nothing limits the request, although somebody asked: a domain or a key may be misspelt. @internal */
export const hasNoRule = ({ because }: Decision): boolean =>
  because === 'no rule matches' || because === 'no rules for the domain';

/** The `limit_remaining` of a rule without a limit. */
const UNLIMITED = 0xffff_ffff;

function whyNotLimited(statuses: readonly Status[], details: readonly unknown[]): NotLimited {
  if (statuses.some(({ remaining }) => remaining === UNLIMITED)) return 'the rule is unlimited';
  return details.some((detail) => asFields(detail).reason === 'no_domain')
    ? 'no rules for the domain'
    : 'no rule matches';
}

// Each field is checked for its type when it is read.
const asFields = (written: unknown): Readonly<Record<string, unknown>> =>
  typeof written === 'object' && written !== null ? (written as Record<string, unknown>) : {};

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
  const detail = asFields(written);
  const ok = code !== 'OVER_LIMIT';
  return {
    ok,
    rule: asText(detail.rule),
    name: limit?.name === '' ? undefined : limit?.name,
    limit: limit?.requestsPerUnit,
    windowMs: limit?.windowMs,
    remaining: limit && remaining,
    resetMs: asNumber(detail.reset_ms) ?? resetMs,
    unspentMs: asNumber(detail.unspent_ms),
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
