import '../helpers/realm.ts';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { envoyConfiguration } from '../../src/parts/envoy/configuration.ts';
import { quotaConfiguration } from '../../src/parts/envoy/quota-configuration.ts';
import { CommandFailed } from '../../src/parts/lab/commands/client.ts';
import { validateEnvoy } from '../helpers/envoy.ts';
import { blocksOf, PROJECT, pages, textOf } from '../helpers/pages/page.ts';
import { rulesFrom } from '../helpers/rules.ts';

type Fields = Record<string, unknown>;

interface WholeEnvoy {
  readonly static_resources: { listeners: Listener[]; readonly clusters: Fields[] };
}
interface Listener {
  name: string;
  readonly address: { readonly socket_address: { port_value: number } };
  readonly filter_chains: readonly { readonly filters: readonly { readonly typed_config: Manager }[] }[];
}
interface Manager extends Fields {
  http_filters: { readonly typed_config: Fields }[];
  readonly route_config: { virtual_hosts: (Fields & { routes: Fields[] })[] };
}

/** Whether a text has parts of an Envoy's configuration. */
const isForEnvoy = (text: string): boolean =>
  /^[ -]*(?:typed_config|typed_per_filter_config|actions|health_checks|circuit_breakers|rate_limit_service|local_reply_config):|%CEL\(/m.test(
    text,
  ) && !/^(?:apiVersion|domain):/m.test(text); // of Kubernetes, or a mapping file of Weir

/** envoy.yaml, and its parts where those of pages belong. */
function place() {
  const whole = load(textOf('envoy.yaml')) as WholeEnvoy; // the type has what is read
  const { listeners, clusters } = whole.static_resources;
  const [listener] = listeners as [Listener];
  const manager = listener.filter_chains[0]?.filters[0]?.typed_config as Manager;
  const [limit] = manager.http_filters;
  const [host] = manager.route_config.virtual_hosts;
  if (!limit || !host || !clusters[0]) throw new Error('envoy.yaml has no rate limit filter, virtual host or cluster');
  return { whole, listeners, manager, filter: limit.typed_config, host, weir: clusters[0] };
}

const PER_ROUTE = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute';

/** Keys of a block, and the part of Envoy that has them. */
const parts: Readonly<Record<string, 'manager' | 'filter' | 'weir'>> = {
  local_reply_config: 'manager',
  access_log: 'manager',
  rate_limit_service: 'filter',
  health_checks: 'weir',
  circuit_breakers: 'weir',
};

/** A whole Envoy with a block of a page in its place. */
function withBlock(text: string): unknown {
  const block = load(text) as Fields | Fields[];
  const envoy = place();
  const { whole, manager, host } = envoy;
  const limit = (rate_limits: unknown): void => {
    host.typed_per_filter_config = { 'envoy.filters.http.ratelimit': { '@type': PER_ROUTE, rate_limits } };
  };
  if (Array.isArray(block)) {
    const [first = {}] = block;
    if ('filter_chains' in first)
      envoy.listeners.splice(0, Number.POSITIVE_INFINITY, ...(block as unknown as Listener[]));
    else if ('routes' in first) manager.route_config.virtual_hosts = block as typeof manager.route_config.virtual_hosts;
    else if ('actions' in first) limit(block);
    else if ('match' in first) host.routes = block.map((route) => ({ route: { cluster: 'upstream' }, ...route }));
    else manager.http_filters.unshift(...(block as Manager['http_filters']));
    return whole;
  }
  if ('static_resources' in block) return block;
  const key = Object.keys(block).find((one) => one in parts);
  if (key) Object.assign(envoy[parts[key] as 'weir'], block);
  else if (block.http_filters) manager.http_filters.unshift(...(block.http_filters as Manager['http_filters']));
  else if (block.rate_limits) limit(block.rate_limits);
  else if (block.istio) limit((block.istio as { rateLimits: unknown }).rateLimits);
  else if (Object.values(block).every((format) => typeof format === 'string'))
    limit(Object.values(block).map((format) => ({ actions: [{ remote_address: {} }], hits_addend: { format } })));
  else throw new Error(`nothing says where in an Envoy this belongs:\n${text}`);
  return whole;
}

const yamlIn = (folder: string): readonly string[] =>
  readdirSync(join(PROJECT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.yaml') && !path.includes('node_modules'))
    .map((path) => join(folder, path));

const files = ['envoy.yaml', ...yamlIn('deploy'), ...yamlIn('examples')].filter((path) =>
  textOf(path).includes('static_resources:'),
);
const blocks = pages.flatMap((page) =>
  blocksOf(textOf(page)).flatMap(({ language, text, line }) =>
    language === 'yaml' && isForEnvoy(text) ? [[`${page}:${line}`, text] as const] : [],
  ),
);

test('the files and pages with configurations of Envoy are found', () => {
  expect(files).toEqual(
    expect.arrayContaining(['envoy.yaml', 'deploy/compose/envoy.yaml', 'examples/deferred/envoy.yaml']),
  );
  expect(blocks.length).toBeGreaterThan(20);
});

test.each(files)('Envoy accepts %s', async (path) => {
  expect(await validateEnvoy(textOf(path))).toMatch(/ OK$/m);
});

test.each(blocks)('Envoy accepts the block at %s in its place', async (_, text) => {
  expect(await validateEnvoy(JSON.stringify(withBlock(text)))).toMatch(/ OK$/m);
});

const WEIR = { host: 'localhost', port: 8081 };

/** One Envoy with the listeners of all configurations that are printed for the rule files of `config`. */
function printedForAll(print: (rules: ReturnType<typeof rulesFrom>, domain: string) => string | undefined): WholeEnvoy {
  const all = yamlIn('config').flatMap((path) => {
    const rules = rulesFrom(textOf(path));
    return [...rules.domains.keys()].flatMap((domain) => {
      const text = print(rules, domain);
      if (text === undefined) return [];
      const printed = load(text) as WholeEnvoy;
      for (const listener of printed.static_resources.listeners) listener.name = `${path}, ${domain}`;
      return [printed];
    });
  });
  const [first] = all as [WholeEnvoy];
  const listeners = all.flatMap(({ static_resources }) => static_resources.listeners);
  for (const [at, { address }] of listeners.entries()) address.socket_address.port_value = 10_000 + at;
  return { static_resources: { ...first.static_resources, listeners } };
}

test('Envoy accepts what weir envoy prints for every rule file of config', async () => {
  const printed = printedForAll((rules, domain) =>
    envoyConfiguration(rules, domain, { ...WEIR, kind: 'envoy', timeoutMs: 250 }),
  );
  expect(printed.static_resources.listeners.length).toBeGreaterThan(40);
  expect(await validateEnvoy(JSON.stringify(printed))).toMatch(/ OK$/m);
});

/** A whole Envoy with the patches of an EnvoyFilter of Istio. */
function withPatches(text: string): string {
  const { spec } = load(text) as { spec: { configPatches: { applyTo: string; patch: { value: Fields } }[] } };
  const { whole, listeners, manager, host } = place();
  const values = (kind: string): Fields[] =>
    spec.configPatches.flatMap(({ applyTo, patch }) => (applyTo === kind ? [patch.value] : []));
  listeners.splice(1);
  manager.http_filters.splice(0, 1, ...(values('HTTP_FILTER') as Manager['http_filters']));
  Object.assign(host, ...values('VIRTUAL_HOST'));
  whole.static_resources.clusters.splice(0, 1, ...values('CLUSTER'));
  return JSON.stringify(whole);
}

test('Envoy accepts the patches that weir envoy prints for Istio for every rule file of config', async () => {
  const printed = printedForAll((rules, domain) =>
    withPatches(envoyConfiguration(rules, domain, { ...WEIR, kind: 'istio', timeoutMs: 250 })),
  );
  expect(printed.static_resources.listeners.length).toBeGreaterThan(40);
  expect(await validateEnvoy(JSON.stringify(printed))).toMatch(/ OK$/m);
});

test('Envoy accepts the quota filter that weir envoy rlqs prints for every rule file of config', async () => {
  const printed = printedForAll((rules, domain) => {
    try {
      return quotaConfiguration(rules, domain, WEIR);
    } catch (error) {
      if (error instanceof CommandFailed) return undefined; // a proxy can apply none of the rules
      throw error;
    }
  });
  expect(printed.static_resources.listeners.length).toBeGreaterThan(20);
  expect(await validateEnvoy(JSON.stringify(printed))).toMatch(/ OK$/m);
});
