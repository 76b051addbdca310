import { Command, Help } from 'commander';

// Prints the help of every command of `weir` as JSON, without running one: src/cli/main.ts builds the commands and at once
// parses the arguments, so this script replaces parsing.

let program: Command | undefined;
Command.prototype.parseAsync = async function (this: Command) {
  program = this;
  return this;
};
await import('../src/cli/main.ts');

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

process.stdout.write(JSON.stringify(program ? helpsOf(program, []) : []));
