import type { Call } from '../../../conformance/src/judge/call.ts';
import type { Limit } from '../../../conformance/src/judge/limits.ts';
import { freshState, type State, steps } from './limiters.ts';

/**
 * Whether some instants of a grid, some order, and some outcome of each unknown call explain all answers of one counter:
 * tries all. For at most eight calls, exact clocks, and unknown calls that take effect before their end or never.
 */
export function isExplained(calls: readonly Call[], limit: Limit, epochMs: number, gridMs: number): boolean {
  const search = (state: State, sinceMs: number, left: readonly Call[]): boolean => {
    if (left.every(({ outcome }) => outcome === 'unknown')) return true;
    const dueMs = Math.min(...left.filter(({ outcome }) => outcome !== 'unknown').map(({ end }) => end));
    return left.some((call) => {
      const rest = left.filter((other) => other !== call);
      const firstMs = Math.ceil(Math.max(call.start, sinceMs) / gridMs) * gridMs;
      for (let atMs = firstMs; atMs <= Math.min(call.end, dueMs); atMs += gridMs) {
        const next = { ...state };
        const answer = steps[limit.algorithm](
          next,
          { hits: call.hits, holder: call.holder, nowMs: epochMs + atMs },
          limit,
        );
        if (agrees(call, answer) && search(next, atMs, rest)) return true;
      }
      return false;
    });
  };
  return search(freshState(limit, epochMs), 0, calls);
}

function agrees(
  { outcome, remaining }: Call,
  answer: { readonly passes: boolean; readonly remaining: number },
): boolean {
  if (outcome === 'unknown') return true;
  if (answer.passes !== (outcome === 'passed')) return false;
  return !answer.passes || Number.isNaN(remaining) || remaining === answer.remaining;
}
