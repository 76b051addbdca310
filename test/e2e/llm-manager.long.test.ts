import '../helpers/realm.ts';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { dump, load } from 'js-yaml';
import { runLlm } from '../helpers/llm-run.ts';

const PAGE = fileURLToPath(new URL('../../docs/llm-tokens.md', import.meta.url));

/** The parts of the page's configuration that change. */
interface Route {
  readonly match: object;
  readonly route: object;
  readonly typed_per_filter_config: Readonly<Record<string, { readonly rate_limits?: readonly Limit[] }>>;
}
interface Limit {
  readonly hits_addend: { readonly format?: string };
}
interface Manager {
  http_filters: { readonly name: string }[];
  readonly route_config: { readonly virtual_hosts: readonly [{ routes: Route[] }] };
}

const LIMITS = 'envoy.filters.http.ratelimit';

/** The configuration of the page, with the parts for `ai_protocol_manager`. */
async function withManager(): Promise<(config: string) => string> {
  const [, section = ''] = (await readFile(PAGE, 'utf8')).split('### With ai_protocol_manager');
  const [filter, routes, formats] = [...section.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) =>
    load(text ?? ''),
  );
  const { reserve, commit } = formats as { reserve: string; commit: string }; // as the page has it
  return (config) => {
    const whole = load(config) as {
      static_resources: {
        listeners: readonly [{ filter_chains: readonly [{ filters: readonly [{ typed_config: Manager }] }] }];
      };
    }; // as the page has it
    const manager = whole.static_resources.listeners[0].filter_chains[0].filters[0].typed_config;
    const isReplaced = ({ name }: { readonly name: string }) => /json_to_metadata|sse_to_metadata/.test(name);
    manager.http_filters = [
      ...(filter as Manager['http_filters']), // of the page
      ...manager.http_filters.filter((one) => !isReplaced(one)),
    ];
    const [host] = manager.route_config.virtual_hosts;
    const [before] = host.routes as [Route];
    const [first, second, last] = before.typed_per_filter_config[LIMITS]?.rate_limits ?? [];
    const rate_limits = [
      { ...first, hits_addend: { format: reserve } },
      { ...second, hits_addend: { format: commit } },
      last,
    ];
    const limits = { ...before.typed_per_filter_config[LIMITS], rate_limits };
    host.routes = (routes as Route[]).map((own) => ({
      ...before,
      ...own,
      typed_per_filter_config: { ...own.typed_per_filter_config, [LIMITS]: limits },
    })) as Route[]; // of the page
    return dump(whole, { lineWidth: -1 });
  };
}

/** What is estimated of the input, by the size of the request, and the `max_tokens` of all requests. */
const reserve = (body: string): number => Math.ceil(body.length / 4) + 500;

test('with ai_protocol_manager, calls are charged what they reported or had reserved, their input included', async () => {
  const options = { calls: 3_000, maxMs: 60_000, atOnce: 64, killedCalls: 100, reserve };
  const run = await runLlm({ ...options, edit: await withManager() });
  expect(run.wrongTenants).toEqual([]);
  expect(run.budget.mostCharged).toBeLessThanOrEqual(run.budget.limit + run.doubtful);
  expect(run.killed).toMatchObject({ wrong: 0, unfinishedWrong: 0 });
  expect(run.found.size).toBe(4);
});
