import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load, loadAll } from 'js-yaml';
import { envoyConfiguration } from '../../src/parts/envoy/configuration.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { schemaFolder, schemaLocations } from '../helpers/kubernetes-schemas.ts';
import { loadText, rulesFrom } from '../helpers/rules.ts';
import { goSource, helm, kubeconform, kustomize } from '../helpers/tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const CHART = join(PROJECT, 'deploy/helm/weir');
const KUSTOMIZE = join(PROJECT, 'deploy/kustomize');
const GOLDEN = join(PROJECT, 'test/deploy/golden');
const KUBERNETES_VERSION = '1.34.0';
const KUBE_VERSION = ['--kube-version', KUBERNETES_VERSION];
const TARGET = { host: 'weir', port: 8081, timeoutMs: 250 };
const cases = readdirSync(join(CHART, 'ci')).map((file) => basename(file, '-values.yaml'));
const valuesOf = (name: string): string => join(CHART, 'ci', `${name}-values.yaml`);

const run = promisify(execFile);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'charts-'));
});

interface Outcome {
  readonly isRight: boolean;
  readonly output: string;
}

/** Runs a tool to its end, even if it fails. */
const outcomeOf = (tool: string, args: readonly string[]): Promise<Outcome> =>
  run(tool, args, { maxBuffer: 1 << 26 }).then(
    ({ stdout, stderr }) => ({ isRight: true, output: `${stdout}${stderr}` }),
    ({ stdout, stderr }: { stdout: string; stderr: string }) => ({ isRight: false, output: `${stdout}${stderr}` }),
  );

/** Renders all manifests of the chart. */
const render = async (...args: readonly string[]): Promise<Outcome> =>
  outcomeOf(await helm(), ['template', 'weir', CHART, '--namespace', 'weir', ...KUBE_VERSION, ...args]);

/** The manifests for each file of values, rendered once. */
const rendered = new Map<string, string>();
const renderedWith = (name: string): string => rendered.get(name) ?? '';
beforeAll(async () => {
  for (const name of cases) {
    const { isRight, output } = await render('--values', valuesOf(name));
    expect({ isRight, output }).toMatchObject({ isRight: true });
    rendered.set(name, output);
  }
});

/** A resource that kubeconform has validated. */
interface Validated {
  readonly filename: string;
  readonly status: 'statusValid' | 'statusInvalid' | 'statusError' | 'statusSkipped';
  readonly msg: string;
}

/**
 * Validates manifests against the schemas of Kubernetes and of all custom resources; a missing schema is an error. One
 * run validates all of them, since reading the schemas takes most of its time.
 *
 * @returns the problems of each
 */
async function conform(manifests: ReadonlyMap<string, string>): Promise<ReadonlyMap<string, readonly string[]>> {
  const names = [...manifests.keys()];
  const pathOf = (at: number): string => join(folder, `manifests-${at}.yaml`);
  for (const [at, text] of [...manifests.values()].entries()) writeFileSync(pathOf(at), text);
  const schemas = await schemaFolder(KUBERNETES_VERSION);
  const { output } = await outcomeOf(await kubeconform(), [
    ...['-strict', '-verbose', '-output', 'json', '-kubernetes-version', KUBERNETES_VERSION],
    ...schemaLocations(schemas).flatMap((location) => ['-schema-location', location]),
    ...names.map((_, at) => pathOf(at)),
  ]);
  const { resources } = JSON.parse(output) as { readonly resources: readonly Validated[] }; // its format
  return new Map(
    names.map((name, at) => {
      const own = resources.filter(({ filename }) => filename === pathOf(at));
      const wrong = own.filter(({ status }) => status !== 'statusValid');
      return [name, own.length === 0 ? ['no resource'] : wrong.map(({ status, msg }) => `${status}: ${msg}`)];
    }),
  );
}

interface EnvEntry {
  readonly name: string;
  readonly value?: string;
}
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [{ readonly env: readonly EnvEntry[]; readonly lifecycle?: unknown }];
      };
    };
  };
}
const manifestsIn = (yaml: string): readonly Manifest[] =>
  loadAll(yaml).filter((found) => found !== null) as Manifest[]; // a test below validates them

test('the chart passes helm lint --strict', async () => {
  expect(await outcomeOf(await helm(), ['lint', '--strict', '--values', valuesOf('standalone'), CHART])).toMatchObject({
    isRight: true,
  });
});

/** The chart's own files, each with the blanks by which templates indent it. */
const ownFiles = [
  ['alerts.yaml', '  '],
  ['dashboards/rules.json', '    '],
  ['dashboards/service.json', '    '],
] as const;

const PLAIN = join(KUSTOMIZE, 'base/weir.yaml');

/** What the chart renders, with the labels of plain manifests. */
const plainOf = (text: string): string =>
  text
    .replaceAll('app.kubernetes.io/managed-by: Helm', 'app.kubernetes.io/managed-by: kustomize')
    .replaceAll(/^ *helm\.sh\/chart: .*\n/gm, '');

const COMMON_LABELS =
  /^( *)app\.kubernetes\.io\/name: weir\n(?: *app\.kubernetes\.io\/(?:instance|version|managed-by): .*\n){3}/gm;

/** Manifests with a word in place of the common labels, and the names of the chart's own files in place of their contents. */
function abridged(manifests: string): string {
  let text = plainOf(manifests).replaceAll(COMMON_LABELS, '$1(labels)\n');
  for (const [file, blanks] of ownFiles) {
    const content = readFileSync(join(CHART, 'files', file), 'utf8')
      .trimEnd()
      .replaceAll(/^/gm, blanks);
    text = text.replace(content, () => `${blanks}(${file})`);
  }
  return text;
}

/** The lines by which manifests differ from others, each after the kind of its manifest. */
async function difference(from: string, to: string): Promise<string> {
  const [attributes, ...paths] = ['attributes', 'from.yaml', 'to.yaml'].map((name) => join(folder, name));
  for (const [at, text] of [from, to].entries()) writeFileSync(paths[at] ?? '', text);
  writeFileSync(attributes ?? '', '* diff=manifest\n');
  const settings = ['-c', `core.attributesFile=${attributes}`, '-c', 'diff.manifest.xfuncname=^kind: .*$'];
  const { output } = await outcomeOf('git', [...settings, 'diff', '--no-index', '--no-color', '-U0', ...paths]);
  return output.replace(/^.*?(?=^@@)/ms, '').replaceAll(/^@@ .* @@/gm, '@@');
}

describe.each(cases)('the chart with %s-values.yaml', (name) => {
  test('renders what the golden file says (UPDATE_GOLDEN=1 writes it)', async () => {
    const golden = join(GOLDEN, `${name}.diff`);
    const common = name === 'minimal' ? readFileSync(PLAIN, 'utf8') : renderedWith('minimal');
    const own = await difference(abridged(common), abridged(renderedWith(name)));
    if (process.env.UPDATE_GOLDEN) writeFileSync(golden, own);
    expect(own).toBe(readFileSync(golden, 'utf8'));
  });

  test('sets variables that the service accepts without a warning', async () => {
    const deployment = manifestsIn(renderedWith(name)).find(({ kind }) => kind === 'Deployment');
    const secret: Readonly<Record<string, string>> = {
      REDIS_URL: 'redis:6379',
      REDIS_AUTH: 'secret',
      ADMIN_TOKEN: 'secret-token-of-sixteen',
    };
    const env =
      deployment?.spec.template.spec.containers[0].env.map(({ name, value = secret[name] }) => [name, value]) ?? [];
    expect((await readSettings(Object.fromEntries(env))).warnings).toEqual([]);
  });

  test('gives a pod enough time to drain before it is killed', () => {
    const pod = manifestsIn(renderedWith(name)).find(({ kind }) => kind === 'Deployment')?.spec.template.spec;
    const env = new Map(pod?.containers[0].env.map(({ name, value }) => [name, value]));
    const sleepS = Number(/"seconds":(\d+)/.exec(JSON.stringify(pod?.containers[0].lifecycle ?? {}))?.[1] ?? 0);
    const drainS =
      Number.parseInt(env.get('DRAIN_DELAY') ?? '', 10) + Number.parseInt(env.get('DRAIN_TIMEOUT') ?? '', 10);
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan(sleepS + drainS);
  });
});

describe('the chart refuses', () => {
  test.each([
    ['an unknown preset', ['preset=nginx'], 'preset'],
    ['an unknown value', ['replica=2'], 'replica'],
    ['several replicas that would count separately', ['replicas=2'], 'more than one replica needs redis.url'],
    ['several workers without Redis', ['workers=2'], 'workers above 1 need redis.url'],
    ['an ingress of the console without a host', ['console.ingress.enabled=true'], 'console.ingress.host'],
    ['a drain that the grace period does not know', ['env.DRAIN_DELAY=60s'], 'set drain.delaySeconds'],
    ['processes that the resources do not know', ['env.WORKERS=4'], 'set workers'],
    ['the same under extraEnv', ['extraEnv[0].name=DRAIN_TIMEOUT', 'extraEnv[0].value=1m'], 'set drain.timeoutSeconds'],
    ['ports that only the pod itself reaches', ['env.DEBUG_HOST=127.0.0.1'], 'DEBUG_HOST=127.0.0.1: probes'],
    ['a guard that does not know what to drop', ['guard.enabled=true'], 'guard.enabled needs guard.image'],
    [
      'a guard that might drop balancers',
      [
        ...['guard.enabled=true', 'guard.image=weir-guard', 'guard.rules={demo.remote_address}', 'guard.ports={443}'],
        ...['guard.enforce=true', 'adminToken.existingSecret=weir-admin'],
      ],
      'guard.enforce needs guard.allow',
    ],
    ['a socket in place of the gRPC port', ['env.GRPC_UDS=/run/weir.sock'], 'GRPC_UDS: the pod would not listen'],
  ])('%s', async (_title, values, message) => {
    const { isRight, output } = await render(...values.flatMap((value) => ['--set', value]));
    expect(isRight).toBe(false);
    expect(output).toContain(message);
  });
});

describe('variables under env and extraEnv are followed by', () => {
  /** The lines of a manifest, without indentation. */
  const linesOf = (kind: string): readonly string[] =>
    (
      renderedWith('variables')
        .split(/^---$/m)
        .find((text) => text.includes(`\nkind: ${kind}\n`)) ?? ''
    )
      .split('\n')
      .map((line) => line.trim());

  test('the ports of the container', () => {
    const ports = linesOf('Deployment').filter((line) => line.includes('containerPort'));
    const expected = { grpc: 9081, http: 9080, debug: 9070, metrics: 9100, sites: 9091 };
    expect(ports).toEqual(
      Object.entries(expected).map(([name, port]) => `- { name: ${name}, containerPort: ${port} }`),
    );
  });

  test('the scheme of probes, of the Service and of the ServiceMonitor', () => {
    const probes = linesOf('Deployment').filter((line) => line.includes('port: debug'));
    expect(probes).toEqual([...Array(2)].map(() => 'httpGet: { path: /, port: debug, scheme: HTTPS }'));
    expect(linesOf('Service')).toContain('- { name: http-debug, port: 6070, targetPort: debug, appProtocol: https }');
    expect(linesOf('ServiceMonitor')).toContain('scheme: https');
  });

  test('the port for other sites, in the Service and the NetworkPolicy', () => {
    expect(linesOf('Service')).toContain('- { name: grpc-sites, port: 8091, targetPort: sites, appProtocol: grpc }');
    expect(linesOf('NetworkPolicy')).toContain('- { port: sites, protocol: TCP }');
  });

  test('the number of replicas: memcached shares counters, too', async () => {
    const memcached = ['env.BACKEND_TYPE=memcache', 'env.MEMCACHE_HOST_PORT=memcached:11211', 'replicas=2'];
    expect(await render(...memcached.flatMap((value) => ['--set', value]))).toMatchObject({ isRight: true });
  });
});

test('resources and the target of the autoscaler are multiplied by the workers', () => {
  const output = renderedWith('variables');
  expect(output).toMatch(/requests:\s+cpu: 1000m\s+memory: 1024Mi\s+limits:\s+memory: 2048Mi/);
  expect(output).toContain('target: { type: AverageValue, averageValue: 2400m }');
});

test('the rules from the chart are valid', () => {
  const config = manifestsIn(renderedWith('minimal')).find(({ kind }) => kind === 'ConfigMap');
  const texts = Object.values(config?.data ?? {});
  expect(texts).not.toEqual([]);
  for (const text of texts) expect(loadText(text)).toMatchObject({ ok: true, warnings: [] });
});

test('the base of the plain manifests is what the chart renders without values', async () => {
  const { output } = await render('--values', valuesOf('minimal'), '--no-hooks', '--set', 'nameOverride=weir');
  const plain = plainOf(output);
  if (process.env.UPDATE_GOLDEN) writeFileSync(PLAIN, plain);
  expect(plain).toBe(readFileSync(PLAIN, 'utf8'));
});

/** The blocks of YAML in a page. */
const blocksOf = (page: string): readonly string[] =>
  Array.from(
    readFileSync(join(PROJECT, 'docs', page), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms),
    ([, text = '']) => text,
  );

test("docs/gateways.md shows the same values for Envoy Gateway's chart as the file", () => {
  const file = readFileSync(join(PROJECT, 'deploy/envoy-gateway/values.yaml'), 'utf8');
  const withoutComments = load(file) as object;
  const [shown = ''] = blocksOf('gateways.md').filter((text) => text.startsWith('config:'));
  expect(withoutComments).toMatchObject(load(shown.replace('REGISTRY/', '')) as object);
});

/** Renders Envoy Gateway's own chart with the values for this service. @returns the block about the service */
async function rateLimitDeployment(): Promise<object> {
  const source = join(await goSource('github.com/envoyproxy/gateway'), 'charts/gateway-helm');
  const chart = join(folder, 'gateway-helm');
  cpSync(source, chart, { recursive: true, dereference: true });
  await run('chmod', ['-R', 'u+w', chart]); // files of Go modules are read-only
  const template = readFileSync(join(chart, 'values.tmpl.yaml'), 'utf8');
  writeFileSync(
    join(chart, 'values.yaml'),
    template.replace(/\$\{\w+ImagePullPolicy\}/g, 'Always').replaceAll(/\$\{\w+\}/g, 'registry.test/gateway:v1'),
  );
  const values = ['--values', join(PROJECT, 'deploy/envoy-gateway/values.yaml')];
  const args = ['template', 'eg', chart, '--namespace', 'envoy-gateway-system', ...KUBE_VERSION, ...values];
  const { output } = await outcomeOf(await helm(), args);
  const config = manifestsIn(output).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'envoy-gateway-config',
  );
  const { provider } = load(config?.data?.['envoy-gateway.yaml'] ?? '') as {
    provider: { kubernetes: { rateLimitDeployment: object } };
  }; // EnvoyGateway
  return provider.kubernetes.rateLimitDeployment;
}

const RULES = rulesFrom(`
domain: shop
descriptors:
  - { key: path, value: /login, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - key: user
    descriptors: [{ key: remote_address, rate_limit: { unit: day, requests_per_unit: 9 } }]
`);

/** Values that pages show, each with the preset that they need. */
const shownValues = [
  ...blocksOf('deploy.md').map((text) => ['standalone', text] as const),
  ...blocksOf('gateways.md')
    .filter((text) => !/^(?:apiVersion|config):/.test(text))
    .map((text) => ['istio', text] as const),
];
const shownManifests = blocksOf('gateways.md').filter((text) => text.startsWith('apiVersion'));

describe('kubeconform', () => {
  let problems: ReadonlyMap<string, readonly string[]>;
  let gateway: object;
  beforeAll(async () => {
    const all = new Map(rendered);
    for (const name of ['base', 'with-redis'])
      all.set(`kustomize ${name}`, (await outcomeOf(await kustomize(), ['build', join(KUSTOMIZE, name)])).output);
    for (const kind of ['istio', 'envoy-gateway'] as const)
      all.set(`weir envoy --for ${kind}`, envoyConfiguration(RULES, 'shop', { kind, ...TARGET }));
    for (const [preset, text] of shownValues) {
      const file = join(folder, 'values.yaml');
      writeFileSync(file, text);
      const { isRight, output } = await render('--set', `preset=${preset}`, '--values', file);
      expect({ text, isRight, output }).toMatchObject({ isRight: true });
      all.set(text, output);
    }
    for (const text of shownManifests) all.set(text, text);
    gateway = await rateLimitDeployment();
    // The configuration has no schema, but the resource EnvoyProxy, which includes the same block, has one.
    const proxy = {
      ...{ apiVersion: 'gateway.envoyproxy.io/v1alpha1', kind: 'EnvoyProxy', metadata: { name: 'check' } },
      spec: { provider: { type: 'Kubernetes', kubernetes: { envoyDeployment: gateway } } },
    };
    all.set('Envoy Gateway', JSON.stringify(proxy));
    problems = await conform(all);
  });

  test.each([
    ...cases,
    ...['kustomize base', 'kustomize with-redis', 'weir envoy --for istio', 'weir envoy --for envoy-gateway'],
    ...shownValues.map(([, text]) => text),
    ...shownManifests,
    'Envoy Gateway',
  ])('accepts the manifests of %s', (name) => {
    expect(problems.get(name)).toEqual([]);
  });

  test("Envoy Gateway's own chart deploys the image", () => {
    expect(gateway).toMatchObject({ replicas: 2, container: { image: 'weir:0.3.0' } });
  });
});
