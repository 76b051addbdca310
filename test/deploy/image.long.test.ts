import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { TRACING_PACKAGES } from '../../src/parts/tracing/open.ts';
import { type ImageRoot, makeImageRoot } from '../helpers/image.ts';
import { runInPod } from '../helpers/pod.ts';
import { buildah, goSource, hadolint } from '../helpers/tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const DOCKERFILE = join(PROJECT, 'deploy/image/Dockerfile');
const BYTES_PER_MB = 1_000_000;
const POD_TIMEOUT_MS = 270_000;

let folder: string;
let image: ImageRoot;
let root: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'image-'));
  image = await makeImageRoot();
  ({ root } = image);
});
afterAll(() => {
  image.remove();
});

/** All files below a folder, each once: from Node 26 on, `readdir` follows links to folders. */
const filesBelow = (path: string): readonly string[] => [
  ...new Set(
    readdirSync(path, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => realpathSync(join(parentPath, name))),
  ),
];

describe('the root file system', () => {
  test('has at most 150 MB, including Node', () => {
    const bytes = filesBelow(root).reduce((sum, path) => sum + statSync(path).size, 0);
    expect(bytes / BYTES_PER_MB).toBeLessThan(150);
  });

  test('contains no shell, no setuid program, no packages except those for tracing, and no cache of this machine', () => {
    const files = filesBelow(root);
    expect(readdirSync(join(root, 'usr/bin')).sort()).toEqual(['healthcheck', 'node', 'ratelimit', 'weir']);
    expect(files.filter((path) => (statSync(path).mode & 0o6000) !== 0)).toEqual([]);
    expect(readdirSync(join(root, 'app')).sort()).toEqual(
      ['LICENSE', 'config', 'dist', 'node_modules', 'package.json', 'proto'].sort(),
    );
    expect(readdirSync(join(root, 'app/dist'))).not.toContain('compile-cache');
    expect(files.filter((path) => path.endsWith('.map'))).toEqual([]);
    const packages = readdirSync(join(root, 'app/node_modules'), { recursive: true, encoding: 'utf8' });
    expect(packages).toEqual(expect.arrayContaining(TRACING_PACKAGES));
    for (const bundled of ['ioredis', 'pino', 'typescript', 'esbuild']) expect(packages).not.toContain(bundled);
  });
});

test('every link in the root file system leads to a file, those of copyrights included', () => {
  const links = readdirSync(root, { withFileTypes: true, recursive: true }).filter((entry) => entry.isSymbolicLink());
  const targetOf = (path: string): string => {
    const target = readlinkSync(path);
    return target.startsWith('/') ? join(root, target) : join(dirname(path), target);
  };
  const paths = links.map(({ parentPath, name }) => join(parentPath, name));
  expect(paths.filter((path) => !existsSync(targetOf(path)))).toEqual([]);
  for (const name of ['libgcc-s1', 'libstdc++6', 'libc6', 'ca-certificates', 'node'])
    expect(readFileSync(join(root, 'usr/share/doc', name, 'copyright'), 'utf8')).not.toBe('');
});

test('the root file system has the CAs of its distribution where the service reads them', () => {
  const file = join(root, 'etc/ssl/certs/ca-certificates.crt');
  expect(readFileSync(file, 'utf8').split('BEGIN CERTIFICATE').length).toBeGreaterThan(100);
});

interface PodReport {
  readonly exit: { readonly code: number };
  readonly [name: string]: unknown;
}

const inPod = async (name: string, hosts: readonly string[]): Promise<PodReport> =>
  (await runInPod(join(PROJECT, `test/deploy/pods/${name}.ts`), {
    hosts,
    env: { IMAGE_ROOT: root },
    timeoutMs: POD_TIMEOUT_MS,
  })) as PodReport; // reported by the script

test('the image, started as by docker run, answers, reports its health, cannot write, and ends on SIGTERM as PID 1', async () => {
  const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')) as { readonly version: string };
  const found = await inPod('entrypoint', []);
  expect(found).toMatchObject({
    healthBefore: { code: 1 },
    health: { code: 0 },
    answer: { code: 0, output: expect.stringContaining('OK') },
    version: { code: 0, output: `${version}\n` },
    write: { code: 1, output: expect.stringContaining('EROFS') },
    exit: { code: 0, signal: null },
    workersExit: { code: 0, signal: null },
  });
  expect(found.workers).not.toContain('unknown option');
});

describe("under Envoy Gateway's environment and probes", () => {
  let found: PodReport;
  beforeAll(async () => {
    found = await inPod('envoy-gateway', ['envoy-gateway', 'envoy-ratelimit', 'redis.redis.svc']);
  });

  test("the container is always ready, runs as the manifest's user without capabilities, and ends on SIGTERM", () => {
    expect(found).toMatchObject({ user: 65_534, failures: [], exit: { code: 0, signal: null } });
    expect(found.probes).toBeGreaterThan(0);
    expect(found.status).toMatch(/^CapEff:\t0+$/m);
    expect(found.status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(found.status).toMatch(/^NSpid:.*\t1$/m);
  });

  test('the service loads the rules that Envoy Gateway generates, and each descriptor of Envoy Gateway matches one', () => {
    const cases = found.cases as { name: string; descriptors: number }[];
    expect(found.nodeId).toBe('envoy-ratelimit');
    expect(cases.length).toBeGreaterThan(20);
    for (const played of cases)
      expect(played).toEqual({
        name: played.name,
        verdict: { ack: played.name },
        descriptors: played.descriptors,
        unlimited: [],
      });
    expect(cases.reduce((sum, { descriptors }) => sum + descriptors, 0)).toBeGreaterThan(30);
  });

  test("the service has the statistics that Envoy Gateway's dashboards query, with their labels", async () => {
    const folder = join(await goSource('github.com/envoyproxy/gateway'), 'charts/gateway-addons-helm/dashboards');
    const dashboard = readFileSync(join(folder, 'global-ratelimit.json'), 'utf8');
    const names = new Set(Array.from(dashboard.matchAll(/"expr": "[^"]*?\b(\w+_\w+)\b/g), ([, name = '']) => name));
    const notOurs = ['go_memstats_gc_cpu_fraction']; // there is no Go runtime
    // If no descriptor exceeded a limit, its over_limit and near_limit are 0, and absent as in envoyproxy/ratelimit.
    const zero = ['ratelimit_service_rate_limit_near_limit', 'ratelimit_service_rate_limit_over_limit'];
    const served = new Set(Array.from(String(found.metrics).matchAll(/^# TYPE (\w+) /gm), ([, name = '']) => name));
    expect([...names].sort()).toEqual(
      expect.arrayContaining(['process_resident_memory_bytes', 'ratelimit_service_rate_limit_total_hits', ...notOurs]),
    );
    expect([...names].filter((name) => !served.has(name) && !zero.includes(name))).toEqual(notOurs);
    expect(found.metrics).toMatch(
      /^ratelimit_service_rate_limit_total_hits\{domain="first-listener",key1="[^"]+",key2="[^"]+"\} \d+$/m,
    );
  });

  test('the service warns only of variables without effect', () => {
    const names = Array.from(
      String(found.output).matchAll(/WARN: (\w+) is set but has no effect/g),
      ([, name]) => name,
    );
    expect(names).toEqual(['PROMETHEUS_MAPPER_YAML']);
  });
});

test("under Envoy AI Gateway's command line and environment it enforces the quotas that AI Gateway generates", async () => {
  const found = await inPod('ai-gateway', [
    'ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local',
    'redis.redis-system.svc.cluster.local',
    'envoy-ai-gateway-ratelimit.envoy-gateway-system',
  ]);
  const [OK, OVER_LIMIT] = [1, 2];
  expect(found).toMatchObject({
    nodeId: 'envoy-ai-gateway-ratelimit',
    verdict: { ack: '1' },
    simple: [OK, OVER_LIMIT, OVER_LIMIT], // at the start; 12 of 10 charged at the end; the next request
    other: [OK, OVER_LIMIT],
    tenants: { begun: OK, finished: OK, tenantIsOver: OK, spent: OVER_LIMIT, bothAreOver: OVER_LIMIT },
    exit: { code: 0, signal: null },
  });
});

/** What a program that failed has printed. */
const printed = ({ stdout, message }: { stdout: string; message: string }) => ({ stdout: stdout || message });

test('hadolint finds no problem in the Dockerfile', async () => {
  const { stdout } = await promisify(execFile)(await hadolint(), ['--no-color', DOCKERFILE]).catch(printed);
  expect(stdout).toBe('');
});

test('the last stage of the Dockerfile builds from that root file system with buildah, if it is installed', async () => {
  const program = await buildah();
  if (program === undefined) return;
  const storage = ['--storage-driver', 'vfs', '--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];
  const run = async (...args: readonly string[]) =>
    promisify(execFile)(program, [...storage, ...args], { maxBuffer: 1 << 26 });
  const [, lastStage = ''] = readFileSync(DOCKERFILE, 'utf8').split(/^(?=FROM scratch$)/m);
  const file = join(folder, 'Dockerfile.last');
  writeFileSync(file, lastStage.replace('COPY --from=build /rootfs /', 'COPY . /'));
  try {
    const args = ['--build-arg', 'VERSION=1.2.3', '--build-arg', 'COMMIT=abc'];
    await run(
      'build',
      '--format',
      'docker',
      '--isolation',
      'chroot',
      '--file',
      file,
      '--tag',
      'weir:test',
      ...args,
      root,
    );
    const { stdout } = await run('inspect', '--type', 'image', 'weir:test');
    const { Docker } = JSON.parse(stdout) as { readonly Docker: { readonly config: object } }; // in buildah's format
    expect(Docker.config).toMatchObject({
      User: '65532:65532',
      WorkingDir: '/app',
      Entrypoint: ['/usr/bin/weir'],
      ExposedPorts: { '8081/tcp': {}, '8080/tcp': {}, '6070/tcp': {} },
      StopSignal: 'SIGTERM',
      Healthcheck: { Test: ['CMD', '/usr/bin/healthcheck'] },
      Labels: { 'org.opencontainers.image.version': '1.2.3', 'org.opencontainers.image.revision': 'abc' },
    });
  } finally {
    await run('rmi', '--all', '--force').catch(() => {}); // nothing was built
  }
});
