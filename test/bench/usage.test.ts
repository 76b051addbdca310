import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(`${PROJECT}/package.json`, 'utf8')) as { scripts: Record<string, string> };

/** Scripts that are programs of this project, and the file that each runs. */
const programs = Object.entries(scripts).flatMap(([name, command]) => {
  const file = /tsx (\S+)$/.exec(command)?.[1];
  return file === undefined ? [] : [[name, file] as const];
});

test.each(programs)('npm run %s -- --help says what it does, and does nothing', async (name, file) => {
  const { stdout } = await promisify(execFile)('npx', ['tsx', file, '--help'], { cwd: PROJECT });
  expect(stdout).toMatch(new RegExp(`^Usage: npm run ${name}\\b`));
});
