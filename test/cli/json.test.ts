import '../helpers/realm.ts';
import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program.ts';

/** Commands that print no data, and why. */
const withoutData: Readonly<Record<string, string>> = {
  serve: 'runs the service, whose log has a format of its own',
  guard: 'drops packets, and logs that',
  'envoy envoy': 'prints a configuration in YAML',
  envoy: 'prints a configuration in YAML',
  'envoy rlqs': 'prints a configuration in YAML',
  completion: 'prints a shell script',
  complete: 'answers the shell',
};

function* leaves(command: Command, path: string): Iterable<readonly [path: string, command: Command]> {
  const isRun = (command as unknown as { readonly _actionHandler?: unknown })._actionHandler; // undefined for a group
  if (isRun) yield [path, command];
  for (const one of command.commands) if (one.name() !== 'help') yield* leaves(one, `${path} ${one.name()}`.trim());
}

test('every command that prints data prints it as JSON with --json', () => {
  const program = createProgram({ print: () => {}, env: {} } as never); // no command is run
  const all = [...leaves(program, '')].filter(([path]) => path !== '');
  expect(all.length).toBeGreaterThan(30);
  const without = all.flatMap(([path, { options }]) => (options.some(({ long }) => long === '--json') ? [] : [path]));
  expect(without.filter((path) => !(path in withoutData))).toEqual([]);
});
