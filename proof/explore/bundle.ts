import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { applyChange, type Change } from '../../test/mutants/mutants.ts';
import { protocols } from './protocols.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(PROJECT, 'node_modules/.cache/explore');

/** A change of one file of the project. */
export interface FileChange {
  readonly file: string;
  readonly change: Change;
}

/**
 * Bundles the explorer with one protocol and the modules that it runs, as they are, except that private fields can be
 * read, so that states can be compared, random ids repeat, and counters take less memory.
 *
 * @param changed  a change to make in addition
 * @returns the path of the bundle
 */
export async function bundleProtocol(protocol: string, changed?: FileChange): Promise<string> {
  const [file = '', name = ''] = protocols.get(protocol) ?? [];
  const suffix = changed ? `-${process.pid}-${Date.now()}` : '';
  const outfile = join(FOLDER, `${protocol}${suffix}.mjs`);
  const world = JSON.stringify(`./worlds/${file}.ts`);
  await build({
    stdin: {
      contents: `import { ${name} } from ${world}; import { runChild } from './child.ts'; runChild(${name});`,
      resolveDir: fileURLToPath(new URL('.', import.meta.url)),
    },
    ...{
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      packages: 'external',
      logLevel: 'warning',
    },
    plugins: [seenThrough(changed)],
  });
  return outfile;
}

const seenThrough = (changed: FileChange | undefined): Plugin => ({
  name: 'seen-through',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^bullmq$/ }, () => ({ path: 'bullmq', namespace: 'errors' }));
    onLoad({ filter: /.*/, namespace: 'errors' }, () => ({
      contents: 'export class DelayedError extends Error {} export class UnrecoverableError extends Error {}',
    }));
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const file = relative(PROJECT, path);
      if (!/^(client\/)?src\//.test(file)) return undefined;
      const written = readFileSync(path, 'utf8');
      const text = changed?.file === file ? applyChange(written, changed.change) : written;
      const contents = text
        .replaceAll(/#(?=[a-z]\w*)/gi, '_')
        .replaceAll('randomUUID()', 'globalThis.nextId()')
        .replaceAll('CHUNK_SLOTS = 1_024', 'CHUNK_SLOTS = 16'); // worlds have a counter each
      return { contents, loader: 'ts' };
    });
  },
});
