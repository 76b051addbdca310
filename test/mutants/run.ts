import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { applyChange, type Change, type Mutants, mutants } from './mutants.ts';

const usage = `Usage: npm run mutants -- [options]

Changes one place of src/ at a time, in a copy of the tree, and runs the tests that must then fail: see
test/mutants/mutants.ts. Prints each change as found or SURVIVED. Exits with 1 if one survives.

  --only TEXT  only the files whose path contains this
  --help       print this text
`;

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
/** Longer than the tests of a file take on a busy machine; a change may make them hang. */
const TIMEOUT_MS = 300_000;
const linked = ['node_modules', 'deploy/lua/node_modules', '.cache'];
const omitted = [...linked, '.git', 'dist'];

main();

function main(): void {
  const { values } = parseArgs({ options: { only: { type: 'string', default: '' }, help: { type: 'boolean' } } });
  if (values.help) return void process.stdout.write(usage);
  const chosen = mutants.filter(({ file }) => file.includes(values.only));
  if (chosen.length === 0) throw new Error(`--only must be part of a path in mutants.ts, got '${values.only}'`);
  const copy = mkdtempSync(join(tmpdir(), 'mutants-'));
  try {
    cpSync(PROJECT, copy, { recursive: true, filter: (path) => !omitted.includes(relative(PROJECT, path)) });
    for (const name of linked) symlinkSync(join(PROJECT, name), join(copy, name));
    const survived = chosen.reduce((sum, one) => sum + countSurvivors(copy, one), 0);
    const all = chosen.reduce((sum, { changes }) => sum + changes.length, 0);
    console.log(`${all - survived} of ${all} changes found`);
    process.exitCode = survived > 0 ? 1 : 0;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Makes the changes of a file. @returns the number of those that no test finds */
function countSurvivors(copy: string, mutants: Mutants): number {
  const { file, changes } = mutants;
  const path = join(copy, file);
  const original = readFileSync(path, 'utf8');
  if (!pass(copy, mutants)) {
    console.log(`its tests fail without a change: ${file}`);
    return changes.length;
  }
  const survivors = changes.filter((change: Change) => {
    writeFileSync(path, applyChange(original, change));
    const survives = pass(copy, mutants);
    console.log(`${survives ? 'SURVIVED' : 'found   '} ${file}: ${change[0].trim()}`);
    return survives;
  });
  writeFileSync(path, original);
  return survivors.length;
}

/** Runs the tests in the copy. @returns whether all pass */
function pass(copy: string, { tests, only = '' }: Mutants): boolean {
  const options = ['--selectProjects', 'h2', '-w', '1', '--bail', '--silent'];
  const args = [...options, '--testNamePattern', only, '--runTestsByPath', ...tests.map((test) => `${test}.test.ts`)];
  const { status } = spawnSync(process.execPath, ['node_modules/jest/bin/jest.js', ...args], {
    cwd: copy,
    env: { ...process.env, TESTS: 'mutants' },
    stdio: 'ignore',
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  return status === 0;
}
