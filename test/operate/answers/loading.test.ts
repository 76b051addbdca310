import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Output {
  readonly inputs: Readonly<Record<string, object>>;
  readonly imports: readonly { readonly path: string; readonly kind: string }[];
}

let folder: string;
let outputs: Readonly<Record<string, Output>>;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'loading-'));
  const entries = ['src/cli/bin.ts', 'src/cli/commands/serve.ts', 'src/serve/control/control-process.ts'];
  const options = ['--bundle', '--splitting', '--format=esm', '--platform=node', '--packages=external'];
  const to = [`--outdir=${join(folder, 'out')}`, `--metafile=${join(folder, 'meta.json')}`, '--log-level=error'];
  execFileSync('node_modules/.bin/esbuild', [...entries, ...options, ...to]);
  ({ outputs } = JSON.parse(readFileSync(join(folder, 'meta.json'), 'utf8')));
});

/** Every file with shapes imports it. */
const SHAPE = 'src/base/shape.ts';

const isOfAnswers = (source: string): boolean =>
  source.startsWith('src/operate/answers/') || /^src\/parts\/[\w-]+\/answers\.ts$/.test(source);

/** The sources of an output and of those that it imports at once. */
function loadedWith(path: string, seen = new Set<string>()): readonly string[] {
  const output = outputs[path];
  if (!output || seen.has(path)) return [];
  seen.add(path);
  const others = output.imports.filter(({ kind }) => kind === 'import-statement');
  return [...Object.keys(output.inputs), ...others.flatMap((one) => loadedWith(one.path, seen))];
}

test.each(['bin', 'serve', 'control-process'])('%s loads no shapes at the start', (name) => {
  const path = Object.keys(outputs).find((one) => one.endsWith(`/${name}.js`)) ?? '';
  const loaded = loadedWith(path);
  expect(loaded).toContain('src/base/package-root.ts');
  expect(loaded).not.toContain(SHAPE);
});

test('shapes of answers are loaded only with the OpenAPI document', () => {
  const starts = Object.values(outputs).flatMap(({ imports }) =>
    imports.flatMap(({ kind, path }) => (kind === 'dynamic-import' ? [path] : [])),
  );
  const withShapes = [...new Set(starts)].filter((path) => loadedWith(path).some(isOfAnswers));
  expect(withShapes.map((path) => path.replace(/.*\/(.*)-\w+\.js$/, '$1'))).toEqual(['openapi']);
});
