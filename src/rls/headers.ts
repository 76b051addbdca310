import type { Answer, Verdict } from '../decide.ts';
import { toWholeSeconds } from './codec.ts';
import { MAX_UINT32, type WireHeader } from './wire.ts';

/** Which headers go with an answer. */
export type ResponseHeaders = (answer: Answer) => readonly WireHeader[];

/** What the headers are called. Without the first three, only `soft` is ever sent. */
export interface HeaderNames {
  readonly limits: { readonly limit: string; readonly remaining: string; readonly reset: string } | undefined;
  readonly soft: string;
}

/**
 * Headers that tell a client its limit, what remains of it, and the seconds until it is unspent again, in this order.
 * They describe one descriptor, chosen as envoyproxy/ratelimit does: the last one that refuses on its own, else the first
 * with the fewest hits remaining. No limit, no headers. Then one that names each rule on whose soft part the request passed.
 *
 * @example `RateLimit-Limit: 5`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 37`, `X-RateLimit-Soft-Exceeded: demo.user`
 */
export function createResponseHeaders({ limits, soft }: HeaderNames, quotaMode: boolean): ResponseHeaders {
  return ({ verdicts, overallCode }) => {
    const shown = limits && mostTelling(verdicts, quotaMode);
    const exceeded = verdicts.flatMap((verdict) =>
      verdict.kind === 'limited' && verdict.decision.soft ? [verdict.rule.path] : [],
    );
    return [
      ...(shown
        ? [
            { key: limits.limit, value: String(shown.limit.requestsPerUnit) },
            { key: limits.remaining, value: String(shown.decision.limitRemaining) },
            { key: limits.reset, value: String(toWholeSeconds(shown.decision.durationUntilResetMs)) },
          ]
        : []),
      ...(overallCode === 'OK' && exceeded.length > 0 && soft !== ''
        ? [{ key: soft, value: exceeded.join(', ') }]
        : []),
    ];
  };
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

function mostTelling(verdicts: readonly Verdict[], quotaMode: boolean): Limited | undefined {
  let shown: Limited | undefined;
  let fewest = MAX_UINT32; // a limit with as many remaining is not worth a header
  for (const verdict of verdicts) {
    if (verdict.kind !== 'limited') continue;
    const { limitRemaining } = verdict.decision;
    if (verdict.code === 'OVER_LIMIT' && !quotaMode && !verdict.rule.quota) {
      shown = verdict;
      fewest = 0;
    } else if (limitRemaining < fewest) {
      shown = verdict;
      fewest = limitRemaining;
    }
  }
  return shown;
}
