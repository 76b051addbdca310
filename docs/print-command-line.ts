import { type Command, Help } from 'commander';
import { createProgram } from '../src/cli/program.ts';
import type { Surroundings } from '../src/cli/surroundings.ts';

// Prints the help of every command of `weir` as JSON, without running one.

const program = createProgram({ env: {} } as Surroundings); // commands use the rest only when they run

/** The help of a command and its subcommands: `weir override set`. */
function helpsOf(command: Command, parents: readonly string[]): readonly { name: string; help: string }[] {
  const names = [...parents, command.name()];
  command.configureHelp({ ...command.configureHelp(), helpWidth: 100 });
  return [
    { name: names.join(' '), help: command.helpInformation() },
    ...new Help()
      .visibleCommands(command)
      .filter((one) => one.name() !== 'help')
      .flatMap((one) => helpsOf(one, names)),
  ];
}

process.stdout.write(JSON.stringify(helpsOf(program, [])));
