import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(`${PROJECT}/package.json`, 'utf8')) as { scripts: Record<string, string> };

/** Whether npm runs this script automatically, before another script or `npm pack`. */
const isHook = (name: string): boolean =>
  name.startsWith('pre') && [...Object.keys(scripts), 'pack'].includes(name.slice(3));
const names = Object.keys(scripts).filter((name) => !isHook(name));

/** A script without the build before it, since other tests use the build meanwhile. */
const withoutBuild = (script = ''): string => script.replace('npm run --silent build && ', '');

test.each(names)('npm run %s -- --help describes the script, and does nothing else', async (name) => {
  const shown = await promisify(execFile)('sh', ['-c', `${withoutBuild(scripts[name])} --help`], {
    cwd: PROJECT,
    env: { ...process.env, PATH: `${PROJECT}/node_modules/.bin:${process.env.PATH}` },
  });
  expect(shown.stdout).toMatch(name === 'start' ? /^Usage: weir serve\b/ : new RegExp(`^Usage: npm run ${name}\\b`));
});

test('npm run passes arguments to the last step of a script, and stops at a step that fails', async () => {
  const run = (...args: string[]) => promisify(execFile)('sh', ['test/steps.sh', 'about', ...args], { cwd: PROJECT });
  const { stdout } = await run('echo one', 'env A=b echo two', '--', 'a b', 'c');
  expect(stdout).toBe('one\ntwo a b c\n');
  await expect(run('false', 'echo two', '--')).rejects.toMatchObject({ code: 1, stdout: '' });
});
