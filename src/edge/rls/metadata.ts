import { type JsonObject, mergeObjects } from '../../base/json.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import { type Answer, limitedBy, type Verdict } from '../../engine/decide/decide.ts';
import { describeApplied } from '../../engine/decide/overrides.ts';
import { shownRemaining } from '../../engine/decide/shown.ts';
import { untoldFacts } from '../../engine/decide/would-refuse.ts';
import { unitOf } from '../../engine/holds/limits.ts';
import { findName, requestUnitNumbers, type WireDescriptor, type WireRequest } from '../wire/wire.ts';
import { primaryVerdict } from './headers.ts';
import type { Extras } from './service.ts';

interface MetadataOptions {
  /** Whether to send the request, and the metadata of the rules that let it pass, as envoyproxy/ratelimit does. */
  readonly ofRequest: boolean;
  /** Whether to send the limit on which each answer is based. */
  readonly ofRule?: boolean;
  /** Whether to send the descriptors whose quotas have hits left. */
  readonly ofPassed?: boolean;
  /** Whether to treat every rule as a quota rule. */
  readonly quotaMode?: boolean;
}

/**
 * Creates the function that computes dynamic metadata, with Weir's own under `weir`.
 *
 * @example `{ "domain": "demo", "descriptors": [{ "entries": ["user=alice"] }], "metadata": { "plan": "free" } }`
 */
export function createDynamicMetadata(options: MetadataOptions): Extras['metadata'] {
  const plain = plainMetadata(options);
  if (!options.ofPassed) return plain;
  return (request, answer) => {
    const passedDescriptors = passedQuotas(request, answer, options.quotaMode ?? false);
    return passedDescriptors ? { ...plain(request, answer), passedDescriptors } : plain(request, answer);
  };
}

function plainMetadata({ ofRequest, ofRule, ofPassed, quotaMode = false }: MetadataOptions): Extras['metadata'] {
  const isEnabled = ofRequest || ofRule || ofPassed;
  return (request, answer) => {
    const untold = isEnabled ? untoldFacts(answer) : undefined;
    const ofStatuses = collectFacts(answer);
    const remarkable = untold ? { ...ofStatuses, ...untold } : ofStatuses;
    const facts = ofRule ? { ...ruleFacts(answer, quotaMode), ...remarkable } : remarkable;
    if (!ofRequest) return facts && { weir: facts };
    return { ...requestMetadata(request), ...rulesMetadata(answer.verdicts), ...(facts && { weir: facts }) };
  };
}

/**
 * Entries of each descriptor whose quotas have hits left, so that a proxy can choose among the candidates that it sent
 * together. Empty if none has, undefined if the request has no quotas.
 *
 * @example `[{ "backend_name": "ns/reserved", "model_name_override": "large" }]`
 * @see https://github.com/envoyproxy/ai-gateway/tree/main/docs/proposals  009, quota-aware routing
 */
function passedQuotas(
  { descriptors }: WireRequest,
  { verdicts }: Answer,
  quotaMode: boolean,
): readonly JsonObject[] | undefined {
  const isQuota = (verdict: Verdict): boolean =>
    verdict.kind === 'limited' && (quotaMode || verdict.policy.quota === true);
  if (!verdicts.some(isQuota)) return undefined;
  return descriptors.flatMap(({ entries }, at): JsonObject[] => {
    const verdict = verdicts[at];
    if (verdict?.kind !== 'limited' || verdict.code === 'OVER_LIMIT' || !isQuota(verdict)) return [];
    return [Object.fromEntries(entries.map(({ key, value }) => [key, value]))];
  });
}

function requestMetadata({ domain, descriptors, hits_addend: hitsAddend }: WireRequest): JsonObject {
  return { domain, descriptors: descriptors.map(describe), ...(hitsAddend !== 0 && { hitsAddend }) };
}

function describe({ entries, limit, hits_addend }: WireDescriptor): JsonObject {
  return {
    entries: entries.map(({ key, value }) => `${key}=${value}`),
    ...(limit && { limit: requestLimitText(limit) }),
    ...(hits_addend && { hitsAddend: hits_addend.value }),
  };
}

/**
 * The limit of a request in Protobuf's text format, without fields that are zero.
 *
 * @example `requests_per_unit:3 unit:HOUR`
 */
function requestLimitText({ requests_per_unit: requestsPerUnit, unit }: NonNullable<WireDescriptor['limit']>): string {
  const fields = [
    ...(requestsPerUnit === 0 ? [] : [`requests_per_unit:${requestsPerUnit}`]),
    ...(unit === 0 ? [] : [`unit:${findName(requestUnitNumbers, unit) ?? unit}`]),
  ];
  return fields.join(' ');
}

/** The merged metadata of every rule that did not refuse, in the order of the descriptors. */
function rulesMetadata(verdicts: readonly Verdict[]): { readonly metadata?: JsonObject } {
  const passed = verdicts
    .flatMap(limitedBy)
    .flatMap(({ code, rule }) => (code !== 'OVER_LIMIT' && rule.metadata ? [rule.metadata] : []));
  const metadata = mergeObjects(passed);
  return Object.keys(metadata).length > 0 ? { metadata } : {};
}

/**
 * The answer, and the limit on which it is based, which is the one that the headers describe.
 *
 * @example `{ "code": "OVER_LIMIT", "rule": "demo.user", "limit": "5 per minute", "remaining": 0 }`
 */
function ruleFacts(answer: Answer, quotaMode: boolean): JsonObject {
  const code = answer.overallCode;
  const verdict = primaryVerdict(answer.verdicts, quotaMode);
  if (!verdict) return { code };
  const { rule } = verdict;
  const { currency } = verdict.limit;
  const { retryAfterMs = NEVER_MS } = answer;
  return {
    code,
    rule: rule.path,
    limit: describeApplied(verdict),
    remaining: currency === undefined ? shownRemaining(verdict) : showMoney(shownRemaining(verdict), currency),
    ...(retryAfterMs !== NEVER_MS && { retry_after_ms: retryAfterMs }),
  };
}

const isRemarkable = (verdict: Verdict): boolean =>
  verdict.kind === 'limited' &&
  (verdict.decision.soft || verdict.decision.degraded !== undefined || verdict.label.unit === 'UNKNOWN');

/**
 * Facts that statuses have no fields for, if any. These are whether a request passed on the soft part of a limit, how
 * long it was delayed, and the window of a limit that no unit describes.
 *
 * @example `{ "delay_ms": 200, "statuses": [{ "index": 0, "rule": "demo.user", "soft": true }] }`
 */
function collectFacts({ verdicts, delayMs }: Answer): JsonObject | undefined {
  if (delayMs === 0 && !verdicts.some(isRemarkable)) return undefined; // the common case
  const statuses = verdicts.flatMap((verdict, index): JsonObject[] => {
    if (verdict.kind !== 'limited') return [];
    const { rule, limit, label, policy, decision } = verdict;
    const facts = {
      ...(decision.soft && { soft: true }),
      ...(decision.degraded && { degraded: decision.degraded }),
      ...(delayMs > 0 && !policy.shadow && decision.delayMs > 0 && { delay_ms: decision.delayMs }),
      ...(label.unit === 'UNKNOWN' && unitOf(limit) !== 'allocated' && { window_ms: limit.windowMs }),
    };
    return Object.keys(facts).length > 0 ? [{ index, rule: rule.path, ...facts }] : [];
  });
  if (delayMs === 0 && statuses.length === 0) return undefined;
  return { ...(delayMs > 0 && { delay_ms: delayMs }), ...(statuses.length > 0 && { statuses }) };
}
