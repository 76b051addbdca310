import { type Argument, type Command, Help, type Option } from 'commander';

/** Gives this command, and those that are added to it later, one style of help and errors. */
export function styleTexts(program: Command): void {
  program
    .showHelpAfterError('(see --help)')
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'weir: ')) })
    .configureHelp({
      subcommandTerm: commandTerm,
      optionDescription,
      visibleOptions: (command) =>
        plain.visibleOptions(command).toSorted((one, other) => optionRank(one) - optionRank(other)),
      visibleCommands: (parent) => inGroups(plain.visibleCommands(parent).filter((one) => one.name() !== 'help')),
    });
}

const plain = new Help();

/** A command with its arguments for the list of commands, without `[options]`, which every command has. */
const commandTerm = (command: Command): string =>
  [command.name(), ...command.registeredArguments.map(argumentTerm)].join(' ');

function argumentTerm(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

/** Options that many commands have, which are listed after a command's own. */
const commonOptions: readonly unknown[] = ['--json', '--target', '--token', '--ca', '--help'];

const optionRank = ({ long }: Option): number => commonOptions.indexOf(long);

/** Marks required options, and leaves out the defaults of switches and lists, which are off and empty. */
function optionDescription(option: Option): string {
  const { defaultValue, description, mandatory } = option;
  const isEmpty = defaultValue === false || (Array.isArray(defaultValue) && defaultValue.length === 0);
  return `${isEmpty ? description : plain.optionDescription(option)}${mandatory ? ' (required)' : ''}`;
}

/** All commands by purpose, as `weir --help` groups them, in order of the groups' first commands. */
const groups: Readonly<Record<string, readonly string[]>> = {
  'Run:': ['serve', 'status'],
  'Change rules safely:': ['check', 'test', 'diff', 'candidate', 'record', 'replay', 'advise', 'simulate'],
  'Ask why:': ['ask', 'explain', 'unmatched', 'top', 'refusals', 'offenders'],
  'Operate:': ['get', 'reset', 'grant', 'override', 'usage', 'forget', 'sites', 'guard', 'audit'],
  'Envoy:': ['envoy', 'doctor', 'quotas'],
  'This program:': ['completion', 'version'],
};

const order = Object.values(groups).flat();

/** Assigns each command to its group in the help. */
export function groupCommands({ commands }: Command): void {
  for (const command of commands) {
    const [heading] = Object.entries(groups).find(([, names]) => names.includes(command.name())) ?? [];
    if (heading !== undefined) command.helpGroup(heading);
  }
}

/** Sorts commands in the order of the groups. */
const inGroups = (commands: readonly Command[]): Command[] =>
  commands.toSorted((one, other) => order.indexOf(one.name()) - order.indexOf(other.name()));
