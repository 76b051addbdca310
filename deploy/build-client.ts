import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const CLIENT = join(PROJECT, 'client');

/** The package's entry points, each with its types. */
const ENTRIES = ['index', 'express', 'fastify', 'hono', 'koa', 'nestjs', 'grpc', 'bullmq', 'fetch'];

/** Peer dependencies, which users install. */
const PEERS = ['@grpc/grpc-js', '@nestjs/common', 'bullmq', 'express', 'fastify', 'hono', 'koa'];

/**
 * Builds the client's package into `client/dist`: modules with the bundled code of dependencies, types, and licences.
 *
 * @param licences  returns the licences of the packages that these files belong to
 */
export async function buildClient(licences: (inputs: readonly string[]) => string): Promise<void> {
  const aside = join(CLIENT, 'dist.building');
  rmSync(aside, { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: PROJECT,
    entryPoints: ENTRIES.map((name) => `client/src/${name}.ts`),
    outdir: aside,
    bundle: true,
    splitting: true,
    chunkNames: 'parts/[name]-[hash]',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: PEERS,
    minifySyntax: true,
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  writeTypes(join(aside, 'types'));
  writeFileSync(join(aside, 'LICENSES.txt'), licences(Object.keys(metafile.inputs)));
  const dist = join(CLIENT, 'dist');
  rmSync(dist, { recursive: true, force: true });
  renameSync(aside, dist);
}

/** Writes the declarations that the entries need, with imports changed to the built modules. */
function writeTypes(folder: string): void {
  const made = mkdtempSync(join(tmpdir(), 'client-types-'));
  try {
    const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, '-p', CLIENT, '--emitDeclarationOnly', '--outDir', made], {
      stdio: 'inherit',
    });
    const source = join(made, 'client/src');
    const waiting = ENTRIES.map((name) => join(source, `${name}.d.ts`));
    const written = new Set<string>();
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (written.has(path)) continue;
      written.add(path);
      const text = readFileSync(path, 'utf8');
      const target = join(folder, relative(source, path));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, text.replaceAll(RELATIVE_IMPORT, "from '$1.js'"));
      for (const [, name] of text.matchAll(RELATIVE_IMPORT)) waiting.push(join(dirname(path), `${name}.d.ts`));
    }
    const outside = [...written].find((path) => relative(source, path).startsWith('..') || !existsSync(path));
    if (outside !== undefined) throw new Error(`the types of the client lead to ${outside}`);
  } finally {
    rmSync(made, { recursive: true });
  }
}

const RELATIVE_IMPORT = /from '(\.[^']+)\.ts'/g;
