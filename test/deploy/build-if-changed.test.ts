import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
/** Seconds since 1970: long before the files of this test are written. */
const LONG_AGO = 1_000_000_000;

describe('the script that npm start runs first', () => {
  let folder: string;
  const path = (name: string): string => join(folder, name);
  /** Whether the script builds; a build of this folder writes one file. */
  const builds = (): boolean => {
    rmSync(path('log'), { force: true });
    execFileSync(process.execPath, [path('deploy/build-if-changed.js')]);
    return existsSync(path('log'));
  };
  const age = (...names: readonly string[]): void => {
    for (const name of names) utimesSync(path(name), LONG_AGO, LONG_AGO);
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'build-if-changed-'));
    for (const name of ['deploy', 'src/engine', 'dist']) mkdirSync(path(name), { recursive: true });
    cpSync(join(PROJECT, 'deploy/build-if-changed.js'), path('deploy/build-if-changed.js'));
    symlinkSync(join(PROJECT, 'node_modules'), path('node_modules'));
    writeFileSync(path('package.json'), '{"type": "module"}');
    writeFileSync(path('src/engine/tree.ts'), '');
    writeFileSync(path('src/engine/load.ts'), '');
    writeFileSync(path('dist/main.js'), '');
    writeFileSync(
      path('deploy/build.ts'),
      "import { writeFileSync } from 'node:fs'; writeFileSync('dist/main.js', ''); writeFileSync('log', '');",
    );
    age('package.json', 'deploy/build.ts', 'src/engine/tree.ts', 'src/engine/load.ts', 'src/engine', 'src');
  });

  test('builds nothing while dist/ is newer than its sources', () => {
    expect(builds()).toBe(false);
  });

  test('builds if there is no dist/', () => {
    rmSync(path('dist/main.js'));
    expect(builds()).toBe(true);
    expect(builds()).toBe(false);
  });

  test.each([
    ['a source', 'src/engine/tree.ts'],
    ['the build itself', 'deploy/build.ts'],
    ['the list of packages', 'package.json'],
  ])('builds when %s has changed', (_, changed) => {
    age('dist/main.js');
    utimesSync(path(changed), LONG_AGO + 1, LONG_AGO + 1);
    expect(builds()).toBe(true);
  });

  test('builds when a source was removed', () => {
    age('dist/main.js');
    expect(builds()).toBe(false);
    rmSync(path('src/engine/load.ts'));
    expect(builds()).toBe(true);
  });
});
