import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load, loadAll } from 'js-yaml';
import { envoyConfiguration } from '../../src/lab/envoy/configuration.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { schemaLocations, writeSchemas } from '../helpers/kubernetes-schemas.ts';
import { rulesFrom } from '../helpers/rules.ts';
import { goSource, helm, kubeconform, kustomize } from '../helpers/tools.ts';
import { startWeir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const CHART = join(PROJECT, 'deploy/helm/weir');
const GOLDEN = join(PROJECT, 'test/deploy/golden');
const KUBERNETES_VERSION = '1.34.0';
const cases = readdirSync(join(CHART, 'ci')).map((file) => basename(file, '-values.yaml'));
const valuesOf = (name: string): string => join(CHART, 'ci', `${name}-values.yaml`);

let folder: string;
let schemas: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'charts-'));
  schemas = join(folder, 'schemas');
  await writeSchemas(schemas, KUBERNETES_VERSION);
});

interface Outcome {
  readonly isRight: boolean;
  readonly output: string;
}

/** Runs a tool to its end, even if it fails. */
const outcomeOf = (tool: string, args: readonly string[]): Promise<Outcome> =>
  promisify(execFile)(tool, args, { maxBuffer: 1 << 26 }).then(
    ({ stdout, stderr }) => ({ isRight: true, output: `${stdout}${stderr}` }),
    ({ stdout, stderr }: { stdout: string; stderr: string }) => ({ isRight: false, output: `${stdout}${stderr}` }),
  );

/** Renders all manifests of the chart. */
const render = async (...args: readonly string[]): Promise<Outcome> =>
  outcomeOf(await helm(), [
    'template',
    'weir',
    CHART,
    '--namespace',
    'weir',
    '--kube-version',
    KUBERNETES_VERSION,
    ...args,
  ]);

/** Validates manifests against the schemas of Kubernetes and of all custom resources; a missing schema is an error. */
async function conform(manifests: string): Promise<Outcome> {
  const file = join(folder, `${process.hrtime.bigint()}.yaml`);
  writeFileSync(file, manifests);
  return outcomeOf(await kubeconform(), [
    ...['-strict', '-summary', '-kubernetes-version', KUBERNETES_VERSION],
    ...schemaLocations(schemas).flatMap((location) => ['-schema-location', location]),
    file,
  ]);
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

describe.each(cases)('the chart with %s-values.yaml', (name) => {
  let rendered: Outcome;
  beforeAll(async () => {
    rendered = await render('--values', valuesOf(name));
  });

  test('passes helm lint --strict', async () => {
    expect(await outcomeOf(await helm(), ['lint', '--strict', '--values', valuesOf(name), CHART])).toMatchObject({
      isRight: true,
    });
  });

  test('renders the contents of the golden file (UPDATE_GOLDEN=1 writes it)', () => {
    expect(rendered).toMatchObject({ isRight: true });
    const golden = join(GOLDEN, `${name}.yaml`);
    if (process.env.UPDATE_GOLDEN) writeFileSync(golden, rendered.output);
    expect(rendered.output).toBe(readFileSync(golden, 'utf8'));
  });

  test('renders manifests that conform to the schemas of Kubernetes and of all custom resources', async () => {
    const { isRight, output } = await conform(rendered.output);
    expect({ isRight, output }).toEqual({
      isRight: true,
      output: expect.stringMatching(/Invalid: 0, Errors: 0, Skipped: 0/),
    });
  });

  test('sets variables that the service accepts without a warning', async () => {
    const deployment = manifestsIn(rendered.output).find(({ kind }) => kind === 'Deployment');
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
    const pod = manifestsIn(rendered.output).find(({ kind }) => kind === 'Deployment')?.spec.template.spec;
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
  let all: string;
  beforeAll(async () => {
    all = (await render('--values', valuesOf('variables'))).output;
  });
  /** The lines of a manifest, without indentation. */
  const linesOf = (kind: string): readonly string[] =>
    (all.split(/^---$/m).find((text) => text.includes(`\nkind: ${kind}\n`)) ?? '')
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

test('resources and the target of the autoscaler are multiplied by the workers', async () => {
  const { output } = await render('--values', valuesOf('variables'));
  expect(output).toMatch(/requests:\s+cpu: 1000m\s+memory: 1024Mi\s+limits:\s+memory: 2048Mi/);
  expect(output).toContain('target: { type: AverageValue, averageValue: 2400m }');
});

test.each(['istio', 'envoy-gateway'] as const)(
  '`weir envoy --for %s` prints a manifest that its schema allows',
  async (kind) => {
    const rules = rulesFrom(`
domain: shop
descriptors:
  - { key: path, value: /login, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - key: user
    descriptors: [{ key: remote_address, rate_limit: { unit: day, requests_per_unit: 9 } }]
`);
    const options = { kind, host: 'weir', port: 8081, timeoutMs: 250 };
    const { isRight, output } = await conform(envoyConfiguration(rules, 'shop', options));
    expect(output).toContain('Valid: 1');
    expect(isRight).toBe(true);
  },
);

describe('kubeconform refuses', () => {
  test.each([
    ['a field that Kubernetes does not know', 'minimal', 'containerPort:', 'containerPorts:'],
    ['a number where text belongs', 'minimal', 'imagePullPolicy: IfNotPresent', 'imagePullPolicy: 1'],
    ['a field that a custom resource does not know', 'standalone', 'endpoints:', 'endpoint:'],
    ['a wrong word in an EnvoyFilter', 'istio', 'INSERT_BEFORE', 'INSERT_ABOVE'],
    ['a kind without a schema', 'minimal', 'kind: Deployment', 'kind: Deploiment'],
  ])('%s', async (_title, name, right, wrong) => {
    const { output } = await render('--values', valuesOf(name));
    expect(output).toContain(right);
    expect(await conform(output.replace(right, wrong))).toMatchObject({ isRight: false });
  });
});

describe('rules from the chart', () => {
  /** Mounts a ConfigMap as the kubelet does: a directory with the data, behind two links. */
  function mount(data: Readonly<Record<string, string>>): string {
    const volume = mkdtempSync(join(folder, 'volume-'));
    const version = join(volume, '..2026_01_01_00_00_00.1');
    mkdirSync(version);
    symlinkSync(basename(version), join(volume, '..data'));
    for (const [name, text] of Object.entries(data)) {
      writeFileSync(join(version, name), text);
      symlinkSync(join('..data', name), join(volume, name));
    }
    return volume;
  }

  test('are loaded from a volume with the ConfigMap, and applied', async () => {
    const { output } = await render('--values', valuesOf('minimal'));
    const config = manifestsIn(output).find(({ kind }) => kind === 'ConfigMap');
    const weir = await startWeir({ RULES_PATH: mount(config?.data ?? {}) });
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    try {
      expect((await client.ask('demo')).statuses[0]?.current_limit).toMatchObject({ requests_per_unit: 5 });
    } finally {
      client.close();
      await weir.stop();
    }
  });
});

describe('the plain manifests', () => {
  const build = async (name: string): Promise<Outcome> =>
    outcomeOf(await kustomize(), ['build', join(PROJECT, 'deploy/kustomize', name)]);

  test('the base manifests equal the chart rendered without values', async () => {
    const { output } = await render('--values', valuesOf('minimal'), '--no-hooks', '--set', 'nameOverride=weir');
    const plain = output
      .replaceAll('app.kubernetes.io/managed-by: Helm', 'app.kubernetes.io/managed-by: kustomize')
      .replaceAll(/^ *helm\.sh\/chart: .*\n/gm, '');
    const file = join(PROJECT, 'deploy/kustomize/base/weir.yaml');
    if (process.env.UPDATE_GOLDEN) writeFileSync(file, plain);
    expect(plain).toBe(readFileSync(file, 'utf8'));
  });

  test.each(['base', 'with-redis'])('in %s build with kustomize, and conform', async (name) => {
    const built = await build(name);
    expect(built).toMatchObject({ isRight: true });
    expect(await conform(built.output)).toEqual({
      isRight: true,
      output: expect.stringMatching(/Invalid: 0, Errors: 0, Skipped: 0/),
    });
  });
});

/** The blocks of YAML in a page. */
const blocksOf = (page: string): readonly string[] =>
  Array.from(
    readFileSync(join(PROJECT, 'docs', page), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms),
    ([, text = '']) => text,
  );

/** Writes a text to a new file. */
function fileOf(text: string): string {
  const file = join(folder, `${process.hrtime.bigint()}.yaml`);
  writeFileSync(file, text);
  return file;
}

describe('the pages', () => {
  test.each([
    ...blocksOf('deploy.md').map((text) => ['standalone', text] as const),
    ...blocksOf('gateways.md')
      .filter((text) => !/^(?:apiVersion|config):/.test(text))
      .map((text) => ['istio', text] as const),
  ])('show values that the chart accepts with the preset %s: %s', async (preset, text) => {
    const rendered = await render('--set', `preset=${preset}`, '--values', fileOf(text));
    expect(rendered).toMatchObject({ isRight: true });
    expect(await conform(rendered.output)).toMatchObject({ isRight: true });
  });

  test.each(blocksOf('gateways.md').filter((text) => text.startsWith('apiVersion')))(
    'show manifests that conform: %s',
    async (text) => {
      expect(await conform(text)).toMatchObject({ isRight: true });
    },
  );

  test("show the same values for Envoy Gateway's chart as the file", () => {
    const file = readFileSync(join(PROJECT, 'deploy/envoy-gateway/values.yaml'), 'utf8');
    const withoutComments = load(file) as object;
    const [shown = ''] = blocksOf('gateways.md').filter((text) => text.startsWith('config:'));
    expect(withoutComments).toMatchObject(load(shown.replace('REGISTRY/', '')) as object);
  });
});

test("Envoy Gateway's own chart accepts the values, and deploys the image", async () => {
  const source = join(await goSource('github.com/envoyproxy/gateway'), 'charts/gateway-helm');
  const chart = join(folder, 'gateway-helm');
  cpSync(source, chart, { recursive: true, dereference: true });
  await promisify(execFile)('chmod', ['-R', 'u+w', chart]); // files of Go modules are read-only
  const template = readFileSync(join(chart, 'values.tmpl.yaml'), 'utf8');
  writeFileSync(
    join(chart, 'values.yaml'),
    template.replace(/\$\{\w+ImagePullPolicy\}/g, 'Always').replaceAll(/\$\{\w+\}/g, 'registry.test/gateway:v1'),
  );
  const values = join(PROJECT, 'deploy/envoy-gateway/values.yaml');
  const args = [
    'template',
    'eg',
    chart,
    '--namespace',
    'envoy-gateway-system',
    '--kube-version',
    KUBERNETES_VERSION,
    '--values',
    values,
  ];
  const { output } = await outcomeOf(await helm(), args);
  const config = manifestsIn(output).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'envoy-gateway-config',
  );
  const { provider } = load(config?.data?.['envoy-gateway.yaml'] ?? '') as {
    provider: { kubernetes: { rateLimitDeployment: object } };
  }; // EnvoyGateway
  const { rateLimitDeployment } = provider.kubernetes;
  expect(rateLimitDeployment).toMatchObject({ replicas: 2, container: { image: 'weir:0.3.0' } });

  // The configuration has no schema, but the resource EnvoyProxy, which includes the same block, has one.
  const proxy = {
    ...{ apiVersion: 'gateway.envoyproxy.io/v1alpha1', kind: 'EnvoyProxy', metadata: { name: 'check' } },
    spec: { provider: { type: 'Kubernetes', kubernetes: { envoyDeployment: rateLimitDeployment } } },
  };
  expect(await conform(JSON.stringify(proxy))).toMatchObject({ isRight: true });
});
