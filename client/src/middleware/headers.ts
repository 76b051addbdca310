import type { Decision, DescriptorDecision } from '../decision.ts';
import type { HeaderStyle } from './options.ts';

/** A header field of a response. */
export type Field = readonly [name: string, value: string];

/** Maximum integer in a structured field. */
const MAX_INTEGER = 999_999_999_999_999;

/** Maximum of all waits, 24 days: the timers of clients may be 32-bit milliseconds. */
const MAX_WAIT_MS = 24 * 86_400_000;

/**
 * The header fields of a response: those that the service sends, and those that describe the limits, unless the service
 * has sent them itself.
 *
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function fieldsOf(decision: Decision, style: HeaderStyle): readonly Field[] {
  const fields: Field[] = decision.headers.map(({ key, value }): Field => [key, value]).filter(isValid);
  const isSent = (name: string) => fields.some(([sent]) => sent.toLowerCase() === name);
  const needsIetf = (style === 'ietf' || style === 'both') && !isSent('ratelimit');
  const needsLegacy = (style === 'legacy' || style === 'both') && !isSent('x-ratelimit-limit');
  if (needsIetf) fields.push(...ietfFields(decision));
  if (needsLegacy) fields.push(...legacyFields(decision));
  if (!decision.ok && !isSent('retry-after')) fields.push(...retryAfter(decision));
  return fields;
}

/** The names of the limits that refuse, as in `RateLimit-Policy`. */
export const violatedPolicies = (decision: Decision): readonly string[] =>
  listPolicies(decision).flatMap(({ name, state }) => (state.ok ? [] : [name]));

function ietfFields(decision: Decision): readonly Field[] {
  const policies = listPolicies(decision);
  if (policies.length === 0) return [];
  const policy = policies.map(({ name, state: { limit = 0, windowMs } }) => {
    const window = windowMs === undefined ? '' : `;w=${seconds(windowMs)}`;
    return `${quoted(name)};q=${Math.min(limit, MAX_INTEGER)}${window}`;
  });
  const current = policies.map(({ name, state }) => {
    const { ok, remaining = 0, retryAfterMs, resetMs } = state;
    const waitMs = ok && !decision.ok ? undefined : (retryAfterMs ?? resetMs); // Retry-After must not be earlier
    const until = waitMs === undefined ? '' : `;t=${waitSeconds(waitMs)}`;
    return `${quoted(name)};r=${Math.min(remaining, MAX_INTEGER)}${until}`;
  });
  return [
    ['RateLimit-Policy', policy.join(', ')],
    ['RateLimit', current.join(', ')],
  ];
}

interface Policy {
  readonly name: string;
  readonly state: DescriptorDecision;
}

/**
 * Each limit of the answer with its own name: the limit's name, or the path of its rule. Of several descriptors with
 * the same policy, the one nearest to its limit; different policies with the same name are numbered, as in Weir.
 */
function listPolicies(decision: Decision): readonly Policy[] {
  const { descriptors, limit } = decision;
  const states: readonly DescriptorDecision[] =
    descriptors.length > 0 || limit === undefined ? descriptors : [decision];
  const byName = new Map<string, Map<string, Policy>>();
  for (const state of states) {
    if (state.limit === undefined) continue;
    const base = state.name ?? state.rule ?? 'default';
    const sameName = byName.get(base) ?? new Map<string, Policy>();
    byName.set(base, sameName);
    const policy = `${state.rule} ${state.limit} ${state.windowMs}`;
    const earlier = sameName.get(policy);
    const name = earlier?.name ?? (sameName.size === 0 ? base : `${base}#${sameName.size + 1}`);
    if (!earlier || isNearer(state, earlier.state)) sameName.set(policy, { name, state });
  }
  return [...byName.values()].flatMap((policies) => [...policies.values()]);
}

const isNearer = (one: DescriptorDecision, other: DescriptorDecision): boolean =>
  one.ok === other.ok ? (one.remaining ?? 0) < (other.remaining ?? 0) : !one.ok;

function legacyFields({ limit, remaining, resetMs }: Decision): readonly Field[] {
  if (limit === undefined) return [];
  return [
    ['X-RateLimit-Limit', String(limit)],
    ['X-RateLimit-Remaining', String(remaining ?? 0)],
    ...(resetMs === undefined ? [] : [['X-RateLimit-Reset', String(waitSeconds(resetMs))] as const]),
  ];
}

/** Omits the field if the request could never pass, or if the time is unknown. */
function retryAfter(decision: Decision): readonly Field[] {
  const waitMs = retryWait(decision);
  if (waitMs === 'never') return [];
  if (waitMs === undefined) return decision.error ? [['Retry-After', '1']] : [];
  return [['Retry-After', String(Math.max(1, waitSeconds(waitMs)))]];
}

/** How long to wait after a refusal; undefined if that is unknown. Weir omits the time if the request could never pass. */
export function retryWait({ retryAfterMs, resetMs, source, error }: Decision): number | 'never' | undefined {
  const waitMs = retryAfterMs ?? (source !== undefined && error === undefined ? 'never' : resetMs);
  return typeof waitMs === 'number' ? Math.min(waitMs, MAX_WAIT_MS) : waitMs;
}

const waitSeconds = (ms: number): number => seconds(Math.min(ms, MAX_WAIT_MS));

const seconds = (ms: number): number => Math.min(Math.ceil(ms / 1_000), MAX_INTEGER);

/**
 * A String in a structured field, which may contain only printable ASCII: other characters, and %, are percent-encoded.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3
 */
const quoted = (text: string): string =>
  `"${text.replace(/[^\x20-\x7e]|%/gu, percentEncoded).replace(/["\\]/g, '\\$&')}"`;

const percentEncoded = (character: string): string =>
  Array.from(Buffer.from(character), (octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`).join('');

/** Whether Node accepts this field. */
const isValid = ([name, value]: Field): boolean =>
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
