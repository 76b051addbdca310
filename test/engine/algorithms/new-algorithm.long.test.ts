import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { algorithmNames } from '../../../src/engine/holds/limits.ts';

const run = promisify(execFile);
const project = resolve(__dirname, '../../..');
const patch = join(__dirname, 'gcra.patch');

/** A copy of the source tree, with links to the project's packages and programs. */
let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'new-algorithm-'));
});

const inCopy = (file: string, ...args: readonly string[]) =>
  run(file, args, { cwd: copy, env: { ...process.env, NO_COLOR: '1', TESTS: 'short' }, maxBuffer: 64 * 1024 * 1024 });

/** The paths of the files in a folder of a tree, relative to the tree. */
const filesOf = (root: string, folder: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((path) => statSync(join(root, path)).isFile());

const readIn = (root: string, path: string): string | undefined =>
  statSync(join(root, path), { throwIfNoEntry: false }) ? readFileSync(join(root, path), 'utf8') : undefined;

/** The lines of a file of the copy that the project's file does not have. */
function addedTo(path: string): readonly string[] {
  const before = new Set(readIn(project, path)?.split('\n'));
  return (readIn(copy, path)?.split('\n') ?? []).filter((line) => !before.has(line));
}

test('a new algorithm needs one file, and its row in the table', async () => {
  const sources = 'src test proto config proof client conformance console deploy docs examples site tour';
  for (const name of [...sources.split(' '), 'package.json', 'jest.config.js', 'tsconfig.json'])
    cpSync(join(project, name), join(copy, name), {
      recursive: true,
      preserveTimestamps: true, // newer pins rebuild tools
      filter: (path) => basename(path) !== 'node_modules',
    });
  symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'));
  symlinkSync(join(project, 'deploy/lua/node_modules'), join(copy, 'deploy/lua/node_modules'));
  symlinkSync(join(project, '.cache'), join(copy, '.cache'));
  await inCopy('git', 'apply', patch);

  const changed = ['src', 'console/src']
    .flatMap((folder) => filesOf(copy, folder))
    .filter((path) => readIn(copy, path) !== readIn(project, path));
  expect(changed.toSorted()).toEqual(['src/engine/algorithms/gcra.ts', 'src/engine/algorithms/index.ts']);
  expect(addedTo('src/engine/algorithms/index.ts')).toEqual(["import { gcra } from './gcra.ts';", '  gcra,']);
  expect(addedTo('docs/scenario-plots.ts')).toEqual(["  gcra: ', burst: 10',"]);

  await inCopy('npx', 'tsx', 'deploy/lua/compile.ts');
  await inCopy('npx', 'tsc', '-p', 'test');
  await inCopy('npx', 'tsc', '-p', 'console');
  const suites = 'test/(parts/redis/requests|engine/backends/memory/backend)\\.test';
  const only = ['--selectProjects', 'h2', '--testPathPatterns', suites, '-t', 'gcra'];
  const { stderr } = await inCopy('npx', 'jest', '-w', '1', ...only);
  const [, passed = 0] = /Tests: .*?(\d+) passed/.exec(stderr) ?? [];
  expect(Number(passed)).toBeGreaterThan(5); // in Redis, and in a store
}); // for the compiler and a cold start of jest on a busy machine

test('only the table names algorithms, not the dispatcher in Redis, the ledger, or the code that decides', () => {
  const files = [
    ...filesOf(project, 'src/engine/ledger'),
    'src/engine/decide/decide.ts',
    'src/parts/redis/scripts/dispatcher.ts',
  ];
  const named = files.filter((path) => algorithmNames.some((name) => readIn(project, path)?.includes(`'${name}'`)));
  expect(named).toEqual([]);
});
