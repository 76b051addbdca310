import type { Command } from 'commander';
import { command, count, type ServiceFlags, type Surroundings } from '../../cli/commands/admin.ts';
import { callApi, FOLLOW_INTERVAL_MS, guarded, show } from '../../cli/commands/client.ts';
import type { RefusalPage } from '../../operate/answers/explain.ts';
import { renderNewRefusals, renderRefusals } from './render.ts';

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
