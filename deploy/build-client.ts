import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { replaceFolder } from './replace-folder.ts';
import { writeTypes } from './types.ts';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const CLIENT = join(PROJECT, 'client');

/** The package's entry points, each with its types. */
const ENTRIES = ['index', 'express', 'fastify', 'hono', 'koa', 'nestjs', 'web', 'grpc', 'bullmq', 'fetch'];

/** Peer dependencies, which users install. */
const PEERS = ['@grpc/grpc-js', '@nestjs/common', '@nestjs/core', 'bullmq', 'express', 'fastify', 'hono', 'koa'];

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
  writeTypes({ project: CLIENT, entries: ENTRIES, source: 'client/src', folder: join(aside, 'types') });
  writeCommonJs(aside);
  writeFileSync(join(aside, 'LICENSES.txt'), licences(Object.keys(metafile.inputs)));
  replaceFolder(join(CLIENT, 'dist'), aside);
}

/**
 * Writes what CommonJS needs: TypeScript requires types of its own kind, and Node requires ES modules. There is only one
 * copy of the code, so that both kinds share their classes.
 */
function writeCommonJs(folder: string): void {
  const cjs = join(folder, 'cjs');
  mkdirSync(cjs);
  writeFileSync(join(cjs, 'package.json'), '{"type":"commonjs"}\n');
  for (const name of ENTRIES) writeFileSync(join(cjs, `${name}.js`), `module.exports = require('../${name}.js');\n`);
  cpSync(join(folder, 'types'), join(cjs, 'types'), { recursive: true });
}
