import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { Answer, Verdict } from '../../engine/decide/decide.ts';
import { remainingOf, toWholeSeconds } from '../../engine/wire/codec.ts';
import { MAX_UINT32, type WireHeader } from '../../engine/wire/wire.ts';
import { ietfHeaders } from './ietf-headers.ts';

/** Computes the response headers of an answer. */
export type ResponseHeaders = (answer: Answer) => readonly WireHeader[];

/** The names of the headers to send. Without `limits` and `retryAfter`, only `soft` is ever sent. */
export interface HeaderOptions {
  readonly limits: { readonly limit: string; readonly remaining: string; readonly reset: string } | undefined;
  /** The `limits` headers describe every descriptor that has a limit, instead of one. */
  readonly ofEveryDescriptor: boolean;
  /** `RateLimit-Policy` and `RateLimit`. */
  readonly ietf: boolean;
  readonly retryAfter: readonly string[];
  readonly soft: string;
  /** Treat every rule as a quota rule. */
  readonly quotaMode: boolean;
}

/**
 * Creates the function that computes response headers: first the limit, the remaining hits, and the seconds until the
 * limit is unspent again. They describe one descriptor, chosen as in envoyproxy/ratelimit: the last one that refuses on
 * its own, else the first with the fewest remaining hits; or all descriptors, with comma-separated values. Then the
 * fields of the IETF's draft, for all limits. Then, for a refusal, the seconds after which the request could pass (RFC
 * 9110, 10.2.3); for a request that passed on the soft part of limits, the names of their rules.
 *
 * @example `RateLimit-Limit: 5`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 37`,
 * `X-RateLimit-Soft-Exceeded: demo.user`
 */
export function createResponseHeaders(options: HeaderOptions): ResponseHeaders {
  return (answer) => {
    const headers = limitHeaders(answer, options);
    if (options.ietf) headers.push(...ietfHeaders(answer));
    headers.push(...retryAfterHeaders(answer, options.retryAfter));
    if (answer.overallCode === 'OK' && isSoft(answer)) headers.push(...softHeaders(answer, options.soft));
    return headers;
  };
}

function limitHeaders({ verdicts }: Answer, { limits, ofEveryDescriptor, quotaMode }: HeaderOptions): WireHeader[] {
  if (!limits) return [];
  const primary = primaryVerdict(verdicts, quotaMode);
  const shown = ofEveryDescriptor ? verdicts.filter((verdict) => verdict.kind === 'limited') : primary ? [primary] : [];
  if (shown.length === 0) return [];
  const header = (key: string, of: (verdict: Limited) => number) => ({ key, value: shown.map(of).join(', ') });
  return [
    header(limits.limit, ({ limit }) => limit.requestsPerUnit),
    header(limits.remaining, remainingOf),
    header(limits.reset, ({ decision }) => toWholeSeconds(decision.durationUntilResetMs)),
  ];
}

/** No header if the request passed, or never could. */
function retryAfterHeaders({ retryAfterMs = NEVER_MS }: Answer, names: readonly string[]): WireHeader[] {
  if (retryAfterMs === NEVER_MS) return [];
  return names.map((key) => ({ key, value: String(toWholeSeconds(retryAfterMs)) }));
}

const isSoft = ({ verdicts }: Answer): boolean =>
  verdicts.some((verdict) => verdict.kind === 'limited' && verdict.decision.soft);

function softHeaders({ verdicts }: Answer, name: string): WireHeader[] {
  if (name === '') return [];
  const exceeded = verdicts.flatMap((verdict) =>
    verdict.kind === 'limited' && verdict.decision.soft ? [verdict.rule.path] : [],
  );
  return [{ key: name, value: exceeded.join(', ') }];
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

/** The verdict that describes an answer; undefined: no verdict has a limit. */
export function primaryVerdict(verdicts: readonly Verdict[], quotaMode: boolean): Limited | undefined {
  let shown: Limited | undefined;
  let fewest = MAX_UINT32; // limits with this many hits left are not shown
  for (const verdict of verdicts) {
    if (verdict.kind !== 'limited') continue;
    const { limitRemaining } = verdict.decision;
    if (verdict.code === 'OVER_LIMIT' && !quotaMode && !verdict.policy.quota) {
      shown = verdict;
      fewest = 0;
    } else if (limitRemaining < fewest) {
      shown = verdict;
      fewest = limitRemaining;
    }
  }
  return shown;
}
