import { Argument, type Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';

/** Scripts that ask `weir complete` for the words that may come next; `$words` follow `weir`, the last unfinished. */
const scripts = {
  bash: `_weir() {
  local IFS=$'\\n'
  COMPREPLY=($(weir complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _weir weir`,
  zsh: `#compdef weir
_weir() {
  local -a found
  found=("\${(@f)$(weir complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then compadd -a found; else _files; fi
}
compdef _weir weir`,
  fish: `complete -c weir -a '(set -l words (commandline -opc)[2..-1] (commandline -ct); weir complete -- $words 2>/dev/null)'`,
} as const;

type Shell = keyof typeof scripts;
const shells = Object.keys(scripts) as readonly Shell[]; // scripts has only shells as keys

const installation: Readonly<Record<Shell, string>> = {
  bash: '# in ~/.bashrc: eval "$(weir completion bash)"',
  zsh: '# in ~/.zshrc, after compinit: eval "$(weir completion zsh)"',
  fish: '# weir completion fish > ~/.config/fish/completions/weir.fish',
};

/** Adds the command that prints the script of a shell, and the one that the scripts call. */
export function addCompletionCommand(program: Command, { print }: Pick<Surroundings, 'print'>): void {
  program
    .command('completion')
    .summary('print the completion script of a shell')
    .description('Print the script that completes commands and options in a shell; its first line says how to use it.')
    .addArgument(new Argument('<shell>', 'the shell that completes').choices(shells))
    .action((shell: Shell) => print(`${installation[shell]}\n${scripts[shell]}`));
  program
    .command('complete', { hidden: true })
    .argument('[word...]')
    .action((words: readonly string[]) => print(completions(program, words).join('\n')));
}

/** The words that may replace the last one. */
export function completions(program: Command, words: readonly string[]): readonly string[] {
  const begun = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  let command = program;
  for (const word of before) command = command.commands.find((one) => one.name() === word) ?? command;
  const help = command.createHelp();
  const option = help.visibleOptions(command).find(({ short, long }) => [short, long].includes(before.at(-1)));
  const isValue = option !== undefined && (option.required || option.optional);
  const [argument] = command.registeredArguments;
  const found = isValue
    ? (option.argChoices ?? [])
    : begun.startsWith('-')
      ? help.visibleOptions(command).flatMap(({ long }) => long ?? [])
      : [...help.visibleCommands(command).map((one) => one.name()), ...(argument?.argChoices ?? [])];
  return found.filter((word) => word.startsWith(begun));
}
