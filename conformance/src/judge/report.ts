import { type Call, times } from './call.ts';
import type { Sentence } from './judge.ts';

/** A report for people: the verdict, a line for each limit, and the smallest part of the history for each contradiction. */
export function asReport(sentences: readonly Sentence[]): string {
  const wrong = sentences.filter(({ wrongCounters }) => wrongCounters > 0);
  const verdict =
    wrong.length === 0
      ? 'No answer contradicts what is declared.'
      : `${wrong.length} of ${sentences.length} limits do not do what is declared: ${wrong.map(({ limit }) => limit.name).join(', ')}.`;
  const lines = sentences.map(lineOf);
  const shown = wrong.flatMap(({ contradictions }) =>
    contradictions.map(({ limit, key, why, calls }) =>
      [`${limit}, ${key}: ${why}`, ...calls.slice(0, MOST_CALLS).map(callLine), ...rest(calls)].join('\n'),
    ),
  );
  return `${[verdict, lines.join('\n'), ...shown].join('\n\n')}\n`;
}

const MOST_CALLS = 12;
const rest = (calls: readonly Call[]): readonly string[] =>
  calls.length > MOST_CALLS ? [`  and ${calls.length - MOST_CALLS} more`] : [];

function lineOf({ limit, counters, calls, mostInWindow, wrongCounters }: Sentence): string {
  const declared = limit.algorithm.endsWith('_bucket') ? `${limit.limit}, burst ${limit.burst}` : `${limit.limit}`;
  const most =
    limit.windowMs === 0 ? '' : `; at most ${mostInWindow} hits in any ${limit.windowMs} ms, ${limit.limit} declared`;
  const total = calls.passed + calls.refused + calls.unknown;
  const verdict = wrongCounters === 0 ? 'ok    ' : 'WRONG ';
  const of = `${total} calls of ${counters} counters: ${calls.passed} passed, ${calls.refused} refused, ${calls.unknown} unknown`;
  return `${verdict}${limit.name} (${limit.algorithm}, ${declared}): ${of}${most}${wrongCounters > 0 ? `; ${wrongCounters} counters are wrong` : ''}`;
}

function callLine({ line, start, end, hits, outcome, remaining, resetMs, holder }: Call): string {
  const left = Number.isNaN(remaining) ? '' : `, ${remaining} left`;
  const reset = Number.isNaN(resetMs) ? '' : `, reset in ${times(resetMs)}`;
  return `  call ${line}: ${times(start)} to ${times(end)}, ${hits} hits${holder ? ` by ${holder}` : ''}: ${outcome}${left}${reset}`;
}
