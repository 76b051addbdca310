import { algorithmFor, type Limit } from '../../engine/algorithms/index.ts';
import { type Decision, NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { toWholeSeconds } from '../../engine/wire/codec.ts';
import type { WireHeader } from '../../engine/wire/wire.ts';

/** The longest field; further policies are left out. Node accepts 16 KiB of header fields in total. */
const MAX_FIELD_LENGTH = 4_096;
/** The most characters of a policy's name; longer ones are cut. */
const MAX_NAME_LENGTH = 256;

/** One limit of a request, as both fields describe it. */
interface Policy {
  readonly name: string;
  readonly limit: Limit;
  readonly remaining: number;
  /** Milliseconds until more hits can pass; undefined: unknown, or never. */
  readonly moreMs: number | undefined;
}

/**
 * `RateLimit-Policy` and `RateLimit` for all limits that can refuse the request, without partition keys. None if there
 * is no such limit.
 *
 * @example `RateLimit-Policy: "demo.user";q=100;w=60`, `RateLimit: "demo.user";r=42;t=17`
 * @see https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
 * @see https://www.rfc-editor.org/rfc/rfc9651
 */
export function ietfHeaders(answer: Answer): readonly WireHeader[] {
  const policies = policiesOf(answer);
  if (policies.length === 0) return [];
  let policy = '';
  let current = '';
  for (const one of policies) {
    const morePolicy = `${policy === '' ? '' : `${policy}, `}${describePolicy(one)}`;
    const moreCurrent = `${current === '' ? '' : `${current}, `}${describeCurrent(one)}`;
    if (Math.max(morePolicy.length, moreCurrent.length) > MAX_FIELD_LENGTH) break;
    policy = morePolicy;
    current = moreCurrent;
  }
  return [
    { key: 'RateLimit-Policy', value: policy },
    { key: 'RateLimit', value: current },
  ];
}

/** A quota applies per window, so the window is rounded up: a client that keeps to the quota is never too fast. */
function describePolicy({ name, limit }: Policy): string {
  const quota = `${sfString(name)};q=${limit.requestsPerUnit}`;
  if (limit.algorithm === 'in_flight') return `${quota};qu="concurrent-requests"`;
  return `${quota};w=${toWholeSeconds(limit.windowMs)}`;
}

function describeCurrent({ name, remaining, moreMs }: Policy): string {
  const available = `${sfString(name)};r=${remaining}`;
  return moreMs === undefined ? available : `${available};t=${toWholeSeconds(moreMs)}`;
}

/** A String of RFC 9651: printable ASCII. Other characters are percent-encoded as UTF-8, and so is `%`. */
function sfString(text: string): string {
  const ascii = text.replace(/[^\x20-\x7e]+|%/gu, (other) =>
    Array.from(Buffer.from(other), (octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`;
}

/** One policy per name; names are unique regardless of case. Of equal policies, such as two users', the nearer one. */
function policiesOf(answer: Answer): readonly Policy[] {
  const byName = new Map<string, Policy>();
  const waitMs = answer.retryAfterMs ?? 0;
  for (const verdict of answer.verdicts) {
    if (verdict.kind !== 'limited') continue;
    for (const { limit, policy, decision } of verdict.applied ?? [verdict]) {
      if (policy.shadow) continue;
      const found = {
        name: nameOf(verdict.rule, limit),
        limit,
        remaining: Math.min(decision.limitRemaining, limit.requestsPerUnit),
        moreMs: untilMoreMs(limit, decision, waitMs),
      };
      addPolicy(byName, found);
    }
  }
  return [...byName.values()];
}

function addPolicy(into: Map<string, Policy>, policy: Policy): void {
  for (let copy = 1; ; copy++) {
    const name = copy === 1 ? policy.name : `${policy.name}#${copy}`;
    const key = name.toLowerCase();
    const known = into.get(key);
    if (known && !isSamePolicy(known, policy)) continue;
    if (!known || isNearer(policy, known)) into.set(key, { ...policy, name: known?.name ?? name });
    return;
  }
}

const isSamePolicy = ({ limit: one }: Policy, { limit: other }: Policy): boolean =>
  one.requestsPerUnit === other.requestsPerUnit &&
  toWholeSeconds(one.windowMs) === toWholeSeconds(other.windowMs) &&
  (one.algorithm === 'in_flight') === (other.algorithm === 'in_flight');

const isNearer = (one: Policy, other: Policy): boolean =>
  one.remaining < other.remaining || (one.remaining === other.remaining && (one.moreMs ?? 0) > (other.moreMs ?? 0));

/** A limit's own name, else its rule's path, with its index if there are several; never numbers that may change. */
function nameOf(rule: Rule, limit: Limit): string {
  const isOfRequest = rule.place === undefined; // its path contains text of the caller
  const found = Math.max(
    rule.limits.findIndex((one) => one.limit === limit),
    0,
  );
  const at = rule.limits[found]?.times?.of ?? found; // a limit keeps its name at all times
  const ofRule = isOfRequest ? `${rule.domain}#request` : at === 0 ? rule.path : `${rule.path}#${at + 1}`;
  return (rule.limits[at]?.label.name || ofRule).slice(0, MAX_NAME_LENGTH);
}

/**
 * Milliseconds until more hits can pass, at most. After a refusal, only limits that refuse have a value, so that no
 * client waits longer than necessary: `Retry-After` must not be earlier. Slots may become free at any time.
 */
function untilMoreMs(limit: Limit, decision: Decision, waitMs: number): number | undefined {
  if (limit.algorithm === 'in_flight') return undefined;
  const { code, retryAfterMs, durationUntilResetMs } = decision;
  if (code === 'OVER_LIMIT') return retryAfterMs === NEVER_MS || retryAfterMs > waitMs ? undefined : retryAfterMs;
  if (waitMs > 0) return undefined;
  const gradualMs = algorithmFor(limit).waitForMoreMs?.(limit, 1) ?? 0;
  return gradualMs > 0 ? Math.min(gradualMs, durationUntilResetMs) : durationUntilResetMs;
}
