import type { Command } from 'commander';
import { rfc3339 } from '../../base/times.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { command, count, type ServiceFlags } from '../lab/commands/admin.ts';
import { callApi, FOLLOW_INTERVAL_MS, guarded, show } from '../lab/commands/client.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import { duration, type Paint } from '../lab/commands/paint.ts';
import { renderSpared } from '../lab/texts.ts';
import type { RefusalPage, RefusedDescriptor } from './answers.ts';

interface RefusalOptions extends ServiceFlags {
  readonly domain?: string;
  readonly rule?: string;
  readonly request?: string;
  readonly wouldRefuse: boolean;
  readonly count: number;
  readonly follow: boolean;
}

/** Adds the command that lists the last refusals. */
export function addRefusalsCommand(program: Command, surroundings: Surroundings): void {
  command(program, 'refusals', 'list the last refusals (EXPLAIN_SAMPLE)')
    .option('--domain <domain>', 'only of this domain')
    .option('--rule <path>', 'only of this rule')
    .option('--request <id>', 'only of the request with this id (not_counted: trace)')
    .option('--would-refuse', 'instead list requests that passed though a limit would have refused them', false)
    .option('--count <n>', 'how many', count, 20)
    .option('--follow', 'keep printing new ones', false)
    .action(
      guarded(surroundings.fail, async (options: RefusalOptions) => {
        if (!options.follow) return show(options, await fetchRefusals(options), renderRefusals, surroundings);
        let render = renderRefusals;
        for await (const page of newRefusals(options)) {
          show(options, page, render, surroundings);
          render = renderNewRefusals;
        }
      }),
    );
}

const fetchRefusals = (options: RefusalOptions, since?: string): Promise<RefusalPage> => {
  const { domain, rule, request, count } = options;
  const query = { domain, rule, request, count, of: options.wouldRefuse ? 'would_refuse' : 'refused', since };
  return callApi(options, { operation: 'GET /api/v1/refusals', query });
};

/** Yields the newest refusals, then new ones as they arrive, without empty pages. */
async function* newRefusals(options: RefusalOptions): AsyncIterable<RefusalPage> {
  let known = { ...(await fetchRefusals(options)), more: 0 };
  yield known;
  for (;;) {
    const { next, dropped } = known;
    const page = await fetchRefusals(options, next);
    const { more, lost, droppedSince = Math.max(page.dropped - dropped, 0) } = page;
    const unseen = { ...page, more: 0, dropped: droppedSince }; // the next page lists the others
    if (page.refusals.length > 0 || lost > 0 || unseen.dropped > 0) yield unseen;
    known = { ...page, more: 0 };
    if (more === 0) await new Promise((resolve) => setTimeout(resolve, FOLLOW_INTERVAL_MS));
  }
}

/** Lists the oldest first, like a log. */
export function renderRefusals(sent: RefusalPage, paint: Paint): string {
  const isEmpty = sent.refusals.length === 0 && sent.lost === 0;
  return [...(isEmpty ? ['no matching refusals'] : []), renderNewRefusals(sent, paint)].filter(Boolean).join('\n');
}

const waitText = (ms: number | null): string => (ms === null ? 'never passes by waiting' : `passes in ${duration(ms)}`);

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
