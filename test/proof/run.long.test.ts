import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { longForms, otherCommands, proofs } from '../../proof/proofs.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
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

const proof = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, ['--import', 'tsx', 'proof/run.ts', ...args], { cwd: PROJECT });

test('npm run proof -- list prints every proof, other commands, and the long forms of tests, with a sentence', async () => {
  const { stdout } = await proof('list');
  const sections = stdout.trimEnd().split('\n\n');
  const lines = sections.flatMap((section) => section.split('\n').slice(1));
  const names = [...proofs.keys(), ...[...otherCommands, ...longForms].map(([command]) => command)];
  expect(lines.map((line) => line.trim().split(/ {2,}/)[0])).toEqual(names);
  for (const line of lines) expect(line).toMatch(/^ {2}\S.* {2}\w.*\.$/);
});

test('npm run proof -- NAME... --help describes the proofs, and does nothing else', async () => {
  const names = [...proofs.keys()];
  const { stdout } = await proof(...names, '--help');
  const described = Array.from(stdout.matchAll(/^Usage: npm run (?:proof -- )?(\S+)/gm), ([, name]) => name);
  expect(described).toEqual(names);
});

test.each([
  [['atack'], "there is no proof 'atack'; did you mean attack?"],
  [['xyz'], "there is no proof 'xyz'; npm run proof -- list prints the names"],
  [['expiry', '--nope'], "Unknown option '--nope'"],
])('npm run proof -- %j fails', async (args, message) => {
  await expect(proof(...args)).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
});
