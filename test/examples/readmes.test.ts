import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { blocksOf, isShell, PROJECT, textOf } from '../helpers/pages/page.ts';
import { commandsIn } from '../helpers/pages/shell.ts';

const examples = readdirSync(join(PROJECT, 'examples'));
const { scripts } = JSON.parse(textOf('package.json')) as { readonly scripts: Readonly<Record<string, string>> }; // the project's own

/** Programs of other projects, and of the shell. */
const others = new Set([
  'cd',
  'curl',
  'envoy',
  'go',
  'mkdir',
  'openapi-python-client',
  'pip',
  'python3',
  'redis-server',
]);

/** Whether a command needs nothing but a clone and what it installs: packages of a registry may be other ones. */
function isInClone(folder: string, [program = '', first = '', second = '']: readonly string[]): boolean {
  if (program === 'node') return first === '../../dist/main.js' || existsSync(join(PROJECT, folder, first));
  if (program === 'npm') return first === 'ci' || (first === 'run' && scripts[second] !== undefined);
  return others.has(program);
}

test.each(examples)('the commands in the README of examples/%s run programs of a clone', (name) => {
  const folder = join('examples', name);
  const commands = blocksOf(textOf(join(folder, 'README.md')))
    .filter(isShell)
    .flatMap(({ text }) => commandsIn(text))
    .flatMap(({ words }) => (words.length > 0 ? [words] : []));
  expect(commands.length).toBeGreaterThan(3);
  expect(commands.filter((words) => !isInClone(folder, words))).toEqual([]);
});
