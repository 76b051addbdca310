import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { runCommand } from '../../helpers/command.ts';
import { fish, zsh } from '../../helpers/tools.ts';
import { MAIN } from '../../helpers/weir.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'completion-'));
  mkdirSync(join(folder, 'bin'));
  mkdirSync(join(folder, 'work'));
  writeFileSync(join(folder, 'bin/weir'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(join(folder, 'bin/weir'), 0o755);
});
afterAll(() => rmSync(folder, { recursive: true }));

async function run(program: string, args: readonly string[]): Promise<string> {
  const env = { PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}`, HOME: folder, TERM: 'dumb' };
  return (await promisify(execFile)(program, args, { cwd: join(folder, 'work'), env })).stdout;
}

const ofCommands: readonly (readonly [line: string, completions: readonly string[]])[] = [
  ['weir over', ['override']],
  ['weir override ', ['list', 'preview', 'remove', 'set']],
  ['weir override set demo user=a exempt --re', ['--reason']],
  ['weir check --format gi', ['github']],
  ['weir completion z', ['zsh']],
  ['weir top --by sh', ['shadowed']],
];

test.each(ofCommands)('%j is completed', async (line, completions) => {
  const { stdout } = await runCommand(['complete', '--', ...line.split(' ').slice(1)]);
  expect(stdout.trim().split('\n').toSorted()).toEqual(completions);
});

const inShells = ofCommands.slice(0, 2);

test.each(inShells)('%j is completed in bash', async (line, completions) => {
  const words = line.split(' ');
  const script = `eval "$(weir completion bash)"
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
_weir; printf '%s\\n' "\${COMPREPLY[@]}" | sort`;
  expect((await run('bash', ['-c', script])).trim().split('\n')).toEqual(completions);
});

test.each(inShells)('%j is completed in fish', async (line, completions) => {
  const script = `weir completion fish | source; complete -C '${line}'`;
  const found = (await run(await fish(), ['--no-config', '-c', script])).trim().split('\n');
  expect(found.map((one) => one.split('\t')[0]).sort()).toEqual(completions);
});

test.each(inShells)('%j is completed in zsh', async (line, completions) => {
  const words = line.split(' ');
  const script = `compdef() { : }; compadd() { shift; print -l -- \${(P)1} }; _files() { : }
eval "$(weir completion zsh)"
words=(${words.map((word) => `'${word}'`).join(' ')}); CURRENT=${words.length}
_weir`;
  expect((await run(await zsh(), ['-f', '-c', script])).trim().split('\n').sort()).toEqual(completions);
});

test('an unknown shell is refused with the known ones', async () => {
  expect(await runCommand(['completion', 'tcsh'])).toMatchObject({
    stderr: expect.stringMatching(/^weir: .*'tcsh' is invalid.*Allowed choices are bash, zsh, fish\./),
  });
});
