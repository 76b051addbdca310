import { rfc3339 } from '../../base/times.ts';
import { shownEntries } from '../../cli/commands/for-terminal.ts';
import { duration, type Paint } from '../../cli/commands/paint.ts';
import { renderSpared } from '../../cli/commands/render.ts';
import type { RefusalPage, RefusedDescriptor } from '../../operate/answers/explain.ts';

/** Lists the oldest first, like a log. */
export function renderRefusals(sent: RefusalPage, paint: Paint): string {
  const isEmpty = sent.refusals.length === 0 && sent.lost === 0;
  return [...(isEmpty ? ['no matching refusals'] : []), renderNewRefusals(sent, paint)].filter(Boolean).join('\n');
}

const waitText = (ms: number | null): string => (ms === null ? 'never passes' : `passes in ${duration(ms)}`);

/** Renders the refusals since the last page, and notes about missing ones. */
export function renderNewRefusals({ refusals, dropped, more, lost }: RefusalPage, paint: Paint): string {
  const notes = [
    ...(more > 0 ? [`${more} more: --count`] : []),
    ...(lost > 0 ? [`${lost} more were replaced before they could be read: raise EXPLAIN_SAMPLE`] : []),
    ...(dropped > 0 ? [`${dropped} more were not kept: there were more than 100 in a second`] : []),
  ].map((note) => paint.dim(note));
  const lines = refusals.toReversed().flatMap(({ atMs, domain, requestId, passesInMs, descriptors, wouldRefuse }) => {
    const isRefused = passesInMs !== 0;
    const hasOneWait = isRefused && descriptors.length === 1;
    return [
      `${rfc3339(atMs)}  ${paint.strong(domain)}${requestId === undefined ? '' : `  request ${requestId}`}`,
      ...descriptors.map(({ entries, outcome, rule, limit, code, arithmetic, source, ...modes }) => {
        const wait = code === 'OVER_LIMIT' && hasOneWait ? `, ${waitText(passesInMs)}` : '';
        const from = source === undefined || source === 'backend' ? '' : ` from ${source}`;
        const result = code === undefined ? outcome : `${code}${from}  ${arithmetic}${wait}`;
        const limited = rule === undefined ? '' : `${rule}${limit ? `: ${limit}${modesText(modes)}` : ''}`;
        return `  ${[shownEntries(entries), limited, result].filter((text) => text !== '').join('  ')}`;
      }),
      ...renderSpared(wouldRefuse).map((line) => `  ${line}`),
      ...(isRefused && !hasOneWait ? [`  ${waitText(passesInMs)}`] : []),
    ];
  });
  return [...lines, ...notes].join('\n');
}

/** The modes for which an exceeded limit may not refuse, such as ` (shadow, soft)`. */
function modesText({ shadow, quota, soft }: Pick<RefusedDescriptor, 'shadow' | 'quota' | 'soft'>): string {
  const modes = [shadow && 'shadow', quota && 'quota', soft && 'soft'].filter(Boolean);
  return modes.length === 0 ? '' : ` (${modes.join(', ')})`;
}
