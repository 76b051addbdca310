import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const usage = `Usage: npm run fuzz -- [options]

Runs the property tests again and again, each time with another seed, until the time is up or one fails. Prints each seed.
A counterexample becomes an example of the test that found it.

  --minutes N   how long to go on (5)
  --seed N      run once, with this seed
  --only TEXT   only the test files whose path contains this
  --help        print this text
`;

const options = {
  minutes: { type: 'string', default: '5' },
  seed: { type: 'string' },
  only: { type: 'string', default: '' },
  help: { type: 'boolean', default: false },
} as const;

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_SEED = 2 ** 31 - 1;

main();

function main(): void {
  const { values } = parseArgs({ options });
  if (values.help) return void process.stdout.write(usage);
  const minutes = positive('--minutes', values.minutes);
  const files = propertyTests().filter((path) => path.includes(values.only));
  if (files.length === 0) throw new Error(`--only must be part of the path of a property test, got '${values.only}'`);
  const endMs = performance.now() + minutes * 60_000;
  do {
    const seed = values.seed ?? String(randomInt(MAX_SEED));
    console.log(`seed ${seed}, ${files.length} files`);
    if (!passes(files, seed)) {
      console.error(`Failed. To run it again: npm run fuzz -- --seed ${seed} --only ${values.only || 'PATH'}`);
      process.exitCode = 1;
      return;
    }
  } while (values.seed === undefined && performance.now() < endMs);
}

function positive(option: string, written: string): number {
  const value = Number(written);
  if (value > 0) return value;
  throw new Error(`${option} must be a number above 0, got '${written}'`);
}

/** The test files that use the helper which sets the seed of random values. */
function propertyTests(): readonly string[] {
  const all = readdirSync(join(PROJECT, 'test'), { recursive: true, encoding: 'utf8' });
  return all
    .filter((path) => path.endsWith('.test.ts'))
    .filter((path) => readFileSync(join(PROJECT, 'test', path), 'utf8').includes('helpers/property.ts'))
    .map((path) => join('test', path));
}

function passes(files: readonly string[], seed: string): boolean {
  const jest = ['jest', '--selectProjects', 'h2', '--silent', '--runTestsByPath', ...files];
  const { status } = spawnSync('npx', jest, {
    cwd: PROJECT,
    env: { ...process.env, PROPERTY_SEED: seed },
    stdio: 'inherit',
  });
  return status === 0;
}
