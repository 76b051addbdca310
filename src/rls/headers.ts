import { NEVER_MS } from '../algorithms/limit.ts';
import type { Answer, Verdict } from '../decide.ts';
import { remainingOf, toWholeSeconds } from './codec.ts';
import { MAX_UINT32, type WireHeader } from './wire.ts';

/** Which headers go with an answer. */
export type ResponseHeaders = (answer: Answer) => readonly WireHeader[];

/** Which headers there are, and what they are called. Without `limits` and `retryAfter`, only `soft` is ever sent. */
export interface HeaderOptions {
  readonly limits: { readonly limit: string; readonly remaining: string; readonly reset: string } | undefined;
  /** `limits` tell of every descriptor that has a limit, instead of one. */
  readonly ofEveryDescriptor: boolean;
  readonly retryAfter: readonly string[];
  readonly soft: string;
  /** Every rule is a quota rule. */
  readonly quotaMode: boolean;
}

/**
 * Headers that tell a client its limit, what remains of it, and the seconds until it is unspent again, in this order.
 * They describe one descriptor, chosen as envoyproxy/ratelimit does: the last one that refuses on its own, else the first
 * with the fewest hits remaining; or all of them, with commas between the values. No limit, no headers. Then, of a refusal, the
 * seconds after which the same request could pass (RFC 9110, 10.2.3), and one that names each rule on whose soft part the
 * request passed.
 *
 * @example `RateLimit-Limit: 5`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 37`, `X-RateLimit-Soft-Exceeded: demo.user`
 */
export function createResponseHeaders(options: HeaderOptions): ResponseHeaders {
  return (answer) => {
    const headers = limitHeaders(answer, options);
    if (answer.overallCode === 'OVER_LIMIT') headers.push(...retryAfterHeaders(answer, options.retryAfter));
    else if (isSoft(answer)) headers.push(...softHeaders(answer, options.soft));
    return headers;
  };
}

function limitHeaders({ verdicts }: Answer, { limits, ofEveryDescriptor, quotaMode }: HeaderOptions): WireHeader[] {
  if (!limits) return [];
  const telling = mostTelling(verdicts, quotaMode);
  const shown = ofEveryDescriptor ? verdicts.filter((verdict) => verdict.kind === 'limited') : telling ? [telling] : [];
  if (shown.length === 0) return [];
  const header = (key: string, of: (verdict: Limited) => number) => ({ key, value: shown.map(of).join(', ') });
  return [
    header(limits.limit, ({ limit }) => limit.requestsPerUnit),
    header(limits.remaining, remainingOf),
    header(limits.reset, ({ decision }) => toWholeSeconds(decision.durationUntilResetMs)),
  ];
}

/** Nothing where no waiting helps. */
function retryAfterHeaders({ verdicts }: Answer, names: readonly string[]): WireHeader[] {
  if (names.length === 0) return [];
  const waitsMs = verdicts.map((verdict) =>
    verdict.kind === 'limited' && verdict.code === 'OVER_LIMIT' ? verdict.decision.retryAfterMs : 0,
  );
  const waitMs = Math.max(...waitsMs);
  return waitMs === NEVER_MS ? [] : names.map((key) => ({ key, value: String(toWholeSeconds(waitMs)) }));
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

function mostTelling(verdicts: readonly Verdict[], quotaMode: boolean): Limited | undefined {
  let shown: Limited | undefined;
  let fewest = MAX_UINT32; // a limit with as many remaining is not worth a header
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
