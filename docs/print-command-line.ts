import { Command } from 'commander';

// Prints the help of every command of `weir` as JSON, without running one: src/main.ts builds the commands and parses
// the arguments at once, so parsing is replaced.

let program: Command | undefined;
Command.prototype.parseAsync = async function (this: Command) {
  program = this;
  return this;
};
await import('../src/main.ts');

/** A command and those below it: `weir override set`. */
function helpsOf(command: Command, parents: readonly string[]): readonly { name: string; help: string }[] {
  const names = [...parents, command.name()];
  command.configureHelp({ ...command.configureHelp(), helpWidth: 100 });
  return [
    { name: names.join(' '), help: command.helpInformation() },
    ...command.commands.filter((one) => one.name() !== 'help').flatMap((one) => helpsOf(one, names)),
  ];
}

process.stdout.write(JSON.stringify(program ? helpsOf(program, []) : []));
