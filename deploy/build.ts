import { chmodSync, copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';
import { buildClient } from './build-client.ts';
import { compileSteps } from './lua/compile.ts';
import { replaceFolder } from './replace-folder.ts';
import { writeTypes } from './types.ts';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(PROJECT, 'dist');
/** The folder for an incomplete build, which is moved into place when complete. */
const ASIDE = join(PROJECT, 'dist.building');

/** The command line imports it on demand. */
const SERVICE = 'src/cli/commands/serve.ts';

/** The entry of the library, relative to `src`. */
const ENGINE = 'engine/index';

/**
 * Bundles of the command line, of the service with the library, and of the control process, built separately although
 * they share most of their code: shared code is split into more files, each of which takes time to load. Each entry
 * becomes a file of its name in `dist/`.
 */
const BUILDS: readonly Readonly<Record<string, string>>[] = [
  { main: 'src/cli/bin.ts' },
  { serve: SERVICE, engine: `src/${ENGINE}.ts` },
  { 'control-process': 'src/serve/control/control-process.ts' },
];

/** The maximum compressed size of all files of the console together. */
const MAX_CONSOLE_BYTES = 150_000;

/** Loaded only by traces and by usage in PostgreSQL, from the operator's own installation. */
const OPTIONAL = ['@opentelemetry/*', 'pg'];

/**
 * Globals that CommonJS packages expect and ES modules lack. They are in one shared module, since a build has dozens of
 * modules.
 */
const COMMON_JS = "import { require, dirname as __dirname } from './commonjs.js';";
const COMMON_JS_MODULE = `import { createRequire } from 'node:module';
import { dirname as directoryOf } from 'node:path';
import { fileURLToPath } from 'node:url';
export const require = createRequire(import.meta.url);
export const dirname = directoryOf(fileURLToPath(import.meta.url));
`;

/** The command line finds the service in `dist/serve.js`. */
const serviceApart: Plugin = {
  name: 'the service is a build of its own',
  setup({ onResolve }) {
    onResolve({ filter: /\/serve\.ts$/ }, ({ path, importer, resolveDir }) =>
      importer !== '' && resolve(resolveDir, path) === join(PROJECT, SERVICE)
        ? { path: './serve.js', external: true }
        : undefined,
    );
  },
};

const usage = `Usage: npm run build

Bundles the service into dist/: its code with that of the packages it needs, the Lua scripts, and the licences of all of it.
Bundles the client for Node into client/dist/, with its types.
`;

const options = {
  absWorkingDir: PROJECT,
  outdir: ASIDE,
  bundle: true,
  splitting: true, // so that dynamic imports stay lazy
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: OPTIONAL,
  banner: { js: COMMON_JS },
  plugins: [serviceApart],
  minifySyntax: true,
  minifyWhitespace: true, // keeps names, for stack traces
  lineLimit: 160,
  sourcemap: 'linked',
  sourcesContent: false,
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
} satisfies BuildOptions;

async function bundle(): Promise<void> {
  await compileSteps();
  rmSync(ASIDE, { recursive: true, force: true });
  const inputs = await buildAll(ASIDE);
  writeFileSync(join(ASIDE, 'commonjs.js'), COMMON_JS_MODULE);
  writeTypes({
    project: join(PROJECT, 'deploy/engine.tsconfig.json'),
    entries: [ENGINE],
    source: 'src',
    folder: join(ASIDE, 'types'),
  });
  const consoleMeta = await bundleConsole();
  writeFileSync(join(ASIDE, 'LICENSES.txt'), licences([...inputs, ...Object.keys(consoleMeta.inputs)]));
  chmodSync(join(ASIDE, 'main.js'), 0o755);
  replaceFolder(DIST, ASIDE);
  await buildClient(licences);
}

/** Builds the console: the files that browsers load, each also compressed. */
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

/**
 * Bundles the service, without what it reads beside its code.
 *
 * @param outdir   the folder of the bundles
 * @param plugins  further plugins of esbuild
 * @returns  the source files of the builds, relative to the root of the project
 */
export async function buildAll(outdir: string, plugins: readonly Plugin[] = []): Promise<readonly string[]> {
  const all = { ...options, outdir, plugins: [...options.plugins, ...plugins] };
  const results = await Promise.all(BUILDS.map((entryPoints) => build({ ...all, entryPoints })));
  return results.flatMap(({ metafile }) => Object.keys(metafile.inputs));
}

/** The folder of each package with files in the build. */
function packagesIn(inputs: readonly string[]): readonly string[] {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []);
  return [...new Set(folders)].sort();
}

const licences = (inputs: readonly string[]): string =>
  packagesIn(inputs)
    .map(licenceOf)
    .join(`\n\n${'-'.repeat(80)}\n\n`);

function licenceOf(folder: string): string {
  const path = join(PROJECT, folder);
  const { name, version, license } = manifestIn(path);
  const file = readdirSync(path).find((one) => /^licen[cs]e/i.test(one));
  const text = file !== undefined && existsSync(join(path, file)) ? readFileSync(join(path, file), 'utf8').trim() : '';
  return `${name} ${version} (${license})\n\n${text}`;
}

/** The package.json of an installed package. */
export const manifestIn = (folder: string): Package =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Package; // npm's own file

export interface Package {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--help')) process.stdout.write(usage);
  else void bundle();
}
