import type { Answer, Verdict } from '../decide.ts';
import { toWholeSeconds } from './codec.ts';
import type { WireHeader } from './wire.ts';

/** Which headers go with an answer: none, or three. */
export type ResponseHeaders = (answer: Answer) => readonly WireHeader[];

export const noResponseHeaders: ResponseHeaders = () => [];

/**
 * Headers that tell a client its limit, what remains of it, and the seconds until it is unspent again, in this order.
 * They describe one descriptor, chosen as envoyproxy/ratelimit does: the last one that refuses on its own, else the first
 * with the fewest hits remaining. No limit, no headers.
 *
 * @example `RateLimit-Limit: 5`, `RateLimit-Remaining: 2`, `RateLimit-Reset: 37`
 */
export function createResponseHeaders(
  names: { limit: string; remaining: string; reset: string },
  quotaMode: boolean,
): ResponseHeaders {
  return ({ verdicts }) => {
    const shown = mostTelling(verdicts, quotaMode);
    if (!shown) return [];
    const { limit, decision } = shown;
    return [
      { key: names.limit, value: String(limit.requestsPerUnit) },
      { key: names.remaining, value: String(decision.limitRemaining) },
      { key: names.reset, value: String(toWholeSeconds(decision.durationUntilResetMs)) },
    ];
  };
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

function mostTelling(verdicts: readonly Verdict[], quotaMode: boolean): Limited | undefined {
  let shown: Limited | undefined;
  let fewest = 4_294_967_295; // a limit with as many remaining is not worth a header
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
