import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, type Metafile, type Plugin } from 'esbuild';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(PROJECT, 'dist');
/** Where a build is made, and moved from when it is whole. */
const ASIDE = join(PROJECT, 'dist.building');

/** What is built: the command line, and the threads that check rules. Each becomes a file of its name in `dist/`. */
const ENTRIES = ['src/main.ts', 'src/rules/file-check-thread.ts', 'src/xds/resource-check-thread.ts'];

/** What all files of the console may have together, compressed. */
const MAX_CONSOLE_BYTES = 150_000;

/** Drawings of algorithms that the console shows. */
const DRAWINGS = [
  ...['fixed-window.svg', 'sliding-window-log.svg', 'sliding-window-counter.svg', 'sliding-window-buckets.svg'],
  ...['token-bucket.svg', 'leaky-bucket.svg'],
];

/** Loaded only where tracing is on, from where the operator has installed it. */
const OPTIONAL = ['@opentelemetry/*'];

/** What packages that are CommonJS expect to find, and an ES module lacks. */
const COMMON_JS = `import { createRequire as createRequireOfWeir } from 'node:module';
import { dirname as dirnameOfWeir } from 'node:path';
import { fileURLToPath as fileURLToPathOfWeir } from 'node:url';
const require = createRequireOfWeir(import.meta.url);
const __dirname = dirnameOfWeir(fileURLToPathOfWeir(import.meta.url));`;

/** The reflection service reads its .proto files from its own package: in a build they are in `dist/proto/`. */
const reflectionProtos: Plugin = {
  name: 'protos of @grpc/reflection',
  setup({ onLoad }) {
    onLoad({ filter: /@grpc\/reflection\/build\/src\/implementations\/.*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll("'../../proto/", "'proto/"),
    }));
  },
};

const usage = `Usage: npm run build

Bundles the service into dist/: its code with that of the packages it needs, the Lua scripts, and the licences of all of it.
`;

if (process.argv.includes('--help')) process.stdout.write(usage);
else await bundle();

async function bundle(): Promise<void> {
  rmSync(ASIDE, { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: PROJECT,
    entryPoints: ENTRIES.map((path) => ({ in: path, out: basename(path, '.ts') })),
    outdir: ASIDE,
    bundle: true,
    splitting: true, // what is imported on demand is loaded on demand
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: OPTIONAL,
    banner: { js: COMMON_JS },
    plugins: [reflectionProtos],
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  copyScripts();
  const consoleMeta = await bundleConsole();
  cpSync(join(PROJECT, 'node_modules/@grpc/reflection/build/proto/grpc'), join(ASIDE, 'proto/grpc'), {
    recursive: true,
  });
  writeFileSync(join(ASIDE, 'LICENSES.txt'), licences([metafile, consoleMeta]));
  chmodSync(join(ASIDE, 'main.js'), 0o755);
  rmSync(DIST, { recursive: true, force: true });
  renameSync(ASIDE, DIST);
}

/** The console: what browsers load, each file also compressed. */
async function bundleConsole(): Promise<Metafile> {
  const source = join(PROJECT, 'console');
  const folder = join(ASIDE, 'console');
  const { metafile } = await build({
    absWorkingDir: PROJECT,
    entryPoints: [
      { in: 'console/src/main.tsx', out: 'app' },
      { in: 'console/src/stream-worker.ts', out: 'stream-worker' },
    ],
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  for (const name of ['index.html', 'icon.svg']) copyFileSync(join(source, name), join(folder, name));
  for (const name of DRAWINGS) copyFileSync(join(PROJECT, 'docs/img', name), join(folder, name));
  let bytes = 0;
  for (const name of readdirSync(folder)) {
    const compressed = gzipSync(readFileSync(join(folder, name)), { level: 9 });
    writeFileSync(join(folder, `${name}.gz`), compressed);
    bytes += compressed.length;
  }
  if (bytes > MAX_CONSOLE_BYTES)
    throw new Error(`the console has ${bytes} bytes compressed, at most ${MAX_CONSOLE_BYTES} are allowed`);
  return metafile;
}

/** The Lua files, which the code reads from beside itself. */
function copyScripts(): void {
  for (const path of readdirSync(join(PROJECT, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.lua')) copyFileSync(join(PROJECT, 'src', path), join(ASIDE, basename(path)));
  }
}

/** The licence of each package that a part of went into the build. */
function licences(metafiles: readonly Metafile[]): string {
  const paths = metafiles.flatMap(({ inputs }) => Object.keys(inputs));
  const folders = new Set(paths.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []));
  return [...folders]
    .sort()
    .map(licenceOf)
    .join(`\n\n${'-'.repeat(80)}\n\n`);
}

function licenceOf(folder: string): string {
  const path = join(PROJECT, folder);
  const { name, version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as Package;
  const file = readdirSync(path).find((one) => /^licen[cs]e/i.test(one));
  const text = file !== undefined && existsSync(join(path, file)) ? readFileSync(join(path, file), 'utf8').trim() : '';
  return `${name} ${version} (${license})\n\n${text}`;
}

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}
