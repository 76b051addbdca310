import { type Decision, NEVER_MS } from '../../engine/algorithms/limit.ts';
import { asInteger, decimal } from '../../engine/algorithms/money.ts';
import { type Answer, type Limited, limitedBy, type Verdict } from '../../engine/decide/decide.ts';
import { shownRemaining, shownResetMs, toWholeSeconds } from '../../engine/decide/shown.ts';
import { wouldRefuse } from '../../engine/decide/would-refuse.ts';
import { type Limit, unitOf } from '../../engine/holds/limits.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { MAX_UINT32, type WireHeader } from '../wire/wire.ts';
import type { Extras } from './service.ts';

/** Names of the headers to send, empty if not. Without `limits` and `retryAfter`, only the last two are ever sent. */
interface HeaderOptions {
  readonly limits: { readonly limit: string; readonly remaining: string; readonly reset: string } | undefined;
  /** Whether the `limits` headers describe every descriptor that has a limit, instead of one. */
  readonly ofEveryDescriptor: boolean;
  /** Whether to send `RateLimit-Policy` and `RateLimit`. */
  readonly ietf: boolean;
  readonly retryAfter: readonly string[];
  readonly soft: string;
  readonly wouldRefuse: string;
  /** Whether to treat every rule as a quota rule. */
  readonly quotaMode: boolean;
  /** Maximum of all waits: timers of clients may be 32-bit milliseconds. */
  readonly maxWaitMs: number;
}

/**
 * Creates the function that computes response headers. First come the limit, the remaining hits, and the seconds until
 * a request can pass, either of one descriptor as in envoyproxy/ratelimit (the last one that refuses on its
 * own, or else the first with the fewest remaining hits), or of all descriptors with comma-separated values. Then come
 * the fields of the IETF's draft for all limits. A refusal adds the seconds after which the request could pass (RFC
 * 9110, 10.2.3), and a request that passed on the soft part of limits adds the names of their rules.
 *
 * @example `RateLimit-Limit: 5`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 37`,
 * `X-RateLimit-Soft-Exceeded: demo.user`
 */
export function createResponseHeaders(options: HeaderOptions): Extras['headers'] {
  return (answer) => {
    const headers = limitHeaders(answer, options);
    if (options.ietf) headers.push(...ietfHeaders(answer, options.maxWaitMs));
    if (answer.retryAfterMs !== undefined) headers.push(...retryAfterHeaders(answer.retryAfterMs, options));
    if (answer.overallCode === 'OK' && isSoft(answer)) headers.push(...softHeaders(answer, options.soft));
    if (options.wouldRefuse !== '') headers.push(...wouldRefuseHeaders(answer, options.wouldRefuse));
    return headers;
  };
}

function limitHeaders({ verdicts }: Answer, options: HeaderOptions): WireHeader[] {
  const { limits, ofEveryDescriptor, quotaMode, maxWaitMs } = options;
  if (!limits) return [];
  const primary = primaryVerdict(verdicts, quotaMode);
  const shown = ofEveryDescriptor ? verdicts.filter((verdict) => verdict.kind === 'limited') : primary ? [primary] : [];
  if (shown.length === 0) return [];
  const header = (key: string, of: (verdict: Limited) => number | string) => ({ key, value: shown.map(of).join(', ') });
  return [
    header(limits.limit, ({ limit }) => headerCount(limit, limit.requestsPerUnit)),
    header(limits.remaining, (verdict) => headerCount(verdict.limit, shownRemaining(verdict))),
    header(limits.reset, (verdict) => toWholeSeconds(Math.min(shownResetMs(verdict), maxWaitMs))),
  ];
}

/** A count, or an amount of a budget's currency: `12.50`. */
const headerCount = ({ currency }: Limit, count: number): number | string =>
  currency === undefined ? count : decimal(count);

/** Headers of a refusal; none if the request never could pass. */
function retryAfterHeaders(retryAfterMs: number, { retryAfter, maxWaitMs }: HeaderOptions): WireHeader[] {
  if (retryAfterMs === NEVER_MS) return [];
  return retryAfter.map((key) => ({ key, value: String(toWholeSeconds(Math.min(retryAfterMs, maxWaitMs))) }));
}

const isSoft = ({ verdicts }: Answer): boolean =>
  verdicts.some((verdict) => verdict.kind === 'limited' && verdict.decision.soft);

function softHeaders({ verdicts }: Answer, name: string): WireHeader[] {
  if (name === '') return [];
  const exceeded = verdicts.flatMap((verdict) =>
    verdict.kind === 'limited' && verdict.decision.soft
      ? [percentEncoded(verdict.rule.path.slice(0, MAX_NAME_LENGTH))]
      : [],
  );
  return [{ key: name, value: fieldOf(exceeded) }];
}

/** A list of structured fields, with the names of `RateLimit-Policy`: `"demo.user";reason=shadow`. */
function wouldRefuseHeaders(answer: Answer, key: string): WireHeader[] {
  const named = wouldRefuse(answer).map(
    ({ rule, limit, reason }) => `${sfString(policyName(rule, limit))};reason=${reason}`,
  );
  return named.length === 0 ? [] : [{ key, value: fieldOf(named) }];
}

/** As many of these items as fit into a field, each once. */
function fieldOf(items: readonly string[]): string {
  let field = '';
  for (const item of new Set(items)) {
    const more = field === '' ? item : `${field}, ${item}`;
    if (more.length > MAX_FIELD_LENGTH) break;
    field = more;
  }
  return field;
}

/** The verdict that describes an answer, or undefined if none has a limit. */
export function primaryVerdict(verdicts: readonly Verdict[], quotaMode: boolean): Limited | undefined {
  let shown: Limited | undefined;
  let fewest = Number.POSITIVE_INFINITY;
  for (const verdict of verdicts) {
    if (verdict.kind !== 'limited') continue;
    const { limitRemaining } = verdict.decision;
    if (verdict.code === 'OVER_LIMIT' && !quotaMode && !verdict.policy.quota) {
      shown = verdict;
      fewest = 0;
    } else if (limitRemaining < fewest && limitRemaining !== MAX_UINT32) {
      // envoyproxy/ratelimit does not show limits with this many hits left
      shown = verdict;
      fewest = limitRemaining;
    }
  }
  return shown;
}

/** Maximum length of a field; further policies are left out. Node accepts 16 KiB of header fields in total. */
const MAX_FIELD_LENGTH = 4_096;
/** Maximum characters of a policy's name; longer ones are cut. */
const MAX_NAME_LENGTH = 256;

/** One limit of a request, as both fields describe it. */
interface Policy {
  readonly name: string;
  readonly limit: Limit;
  readonly remaining: number;
  /** Milliseconds until more hits can pass; undefined if unknown or never. */
  readonly moreMs: number | undefined;
}

/**
 * `RateLimit-Policy` and `RateLimit` for all limits that can refuse the request, if any, without partition keys.
 *
 * @example `RateLimit-Policy: "demo.user";q=100;w=60`, `RateLimit: "demo.user";r=42;t=17`
 * @see https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
 * @see https://www.rfc-editor.org/rfc/rfc9651
 */
function ietfHeaders(answer: Answer, maxWaitMs: number): readonly WireHeader[] {
  const policies = collectPolicies(answer);
  if (policies.length === 0) return [];
  let policy = '';
  let current = '';
  for (const one of policies) {
    const morePolicy = `${policy === '' ? '' : `${policy}, `}${describePolicy(one)}`;
    const moreCurrent = `${current === '' ? '' : `${current}, `}${describeCurrent(one, maxWaitMs)}`;
    if (Math.max(morePolicy.length, moreCurrent.length) > MAX_FIELD_LENGTH) break;
    policy = morePolicy;
    current = moreCurrent;
  }
  return [
    { key: 'RateLimit-Policy', value: policy },
    { key: 'RateLimit', value: current },
  ];
}

/** Describes a quota. The window is rounded up, so that a client that keeps to the quota is never too fast. */
function describePolicy({ name, limit }: Policy): string {
  const quota = `${sfString(name)};q=${sfInteger(limit, limit.requestsPerUnit)}`;
  if (limit.currency !== undefined) return `${quota};qu="${limit.currency}-cents";w=${toWholeSeconds(limit.windowMs)}`;
  const counts = unitOf(limit);
  if (counts === 'slots') return `${quota};qu="concurrent-requests"`;
  return counts === 'allocated' ? quota : `${quota};w=${toWholeSeconds(limit.windowMs)}`;
}

function describeCurrent({ name, limit, remaining, moreMs }: Policy, maxWaitMs: number): string {
  const available = `${sfString(name)};r=${sfInteger(limit, remaining)}`;
  return moreMs === undefined ? available : `${available};t=${toWholeSeconds(Math.min(moreMs, maxWaitMs))}`;
}

/** The largest Integer of RFC 9651. */
const MAX_SF_INTEGER = 999_999_999_999_999;

const sfInteger = (limit: Limit, count: number): number => asInteger(limit, count, MAX_SF_INTEGER);

/** Formats a String of RFC 9651, which is printable ASCII. */
const sfString = (text: string): string => `"${percentEncoded(text).replace(/["\\]/g, '\\$&')}"`;

/** Printable ASCII, in which other characters are percent-encoded as UTF-8, and so is `%`. */
const percentEncoded = (text: string): string =>
  text.replace(/[^\x20-\x7e]+|%/gu, (other) =>
    Array.from(Buffer.from(other), (octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );

/** Collects one policy per name, regardless of case. Of equal policies, such as two users', the nearer one is kept. */
function collectPolicies(answer: Answer): readonly Policy[] {
  const byName = new Map<string, Policy>();
  const waitMs = answer.retryAfterMs ?? 0;
  for (const verdict of answer.verdicts.flatMap(limitedBy)) {
    for (const { limit, policy, decision } of verdict.applied ?? [verdict]) {
      if (policy.shadow) continue;
      const found = {
        name: policyName(verdict.rule, limit),
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
  unitOf(one) === unitOf(other);

const isNearer = (one: Policy, other: Policy): boolean =>
  one.remaining < other.remaining || (one.remaining === other.remaining && (one.moreMs ?? 0) > (other.moreMs ?? 0));

/** Name of a limit, or else its rule's path, with its index if there are several; never numbers that may change. */
function policyName(rule: Rule, limit: Limit): string {
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
 * Upper bound of the milliseconds until more hits can pass. After a refusal, only limits that refuse have a value, so
 * that no client waits longer than necessary, as `Retry-After` must not be earlier. What is held may come back any time.
 */
function untilMoreMs(limit: Limit, decision: Decision, waitMs: number): number | undefined {
  if (unitOf(limit) !== 'hits') return undefined;
  const { code, retryAfterMs } = decision;
  if (code === 'OVER_LIMIT') return retryAfterMs === NEVER_MS || retryAfterMs > waitMs ? undefined : retryAfterMs;
  if (waitMs > 0) return undefined;
  return shownResetMs({ limit, decision });
}
