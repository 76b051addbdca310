import { textOf } from './page.ts';
import type { SimpleCommand } from './shell.ts';

/** A command of `weir` from the command-line reference, which is generated from the parser. */
interface Known {
  /** The permitted values by flag; undefined: the flag takes no value. */
  readonly flags: ReadonlyMap<string, { readonly choices: readonly string[] } | undefined>;
  /** Its parent runs it if no subcommand is given. */
  readonly isDefault: boolean;
  readonly minOperands: number;
  readonly maxOperands: number;
}

const known: ReadonlyMap<string, Known> = new Map(
  Array.from(
    textOf('docs/command-line.md').matchAll(/^## (weir[^\n]*)\n\n```text\n(.*?)^```/gms),
    ([, name = '', help = '']) => [name, knownFrom(help)],
  ),
);

function knownFrom(help: string): Known {
  const operands = /^Usage: .*?(?:\[options\]|$)(.*)$/m
    .exec(help)?.[1]
    ?.replace('[command]', '')
    .match(/[<[]\S+/g);
  const options = help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)( [<[][^>\]]+[>\]])?(.*\n(?: {10,}.*\n)*)/gm);
  return {
    isDefault: /\(the default\)/.test(help.replace(/^(?:Arguments|Options|Commands):.*/ms, '')),
    flags: new Map(
      Array.from(options, ([, flag = '', value, meaning = '']) => {
        const [, choices = ''] = /\(choices: ([^)]*?)(?:, default: [^)]*)?\)/.exec(meaning.replace(/\s+/g, ' ')) ?? [];
        const names = Array.from(choices.matchAll(/"([^"]+)"/g), ([, name = '']) => name);
        return [flag, value === undefined ? undefined : { choices: names }];
      }),
    ),
    minOperands: operands?.filter((operand) => operand.startsWith('<')).length ?? 0,
    maxOperands: operands?.some((operand) => operand.includes('...'))
      ? Number.POSITIVE_INFINITY
      : (operands?.length ?? 0),
  };
}

/** The names of settings in settings.md, in backticks. */
const settings = new Set(textOf('docs/settings.md').match(/`[A-Z][A-Z0-9_]+`/g));
export const isSetting = (name: string): boolean =>
  settings.has(`\`${name}\``) || name === 'WEIR_TOKEN' || /^DOG_STATSD_MOGRIFIER_\w+_(?:PATTERN|NAME|TAGS)$/.test(name);

/**
 * Lists the problems of a `weir` command: its name, flags, their values, operands, and the settings before it.
 *
 * @param isMention  a name in a sentence, such as `weir explain`, which needs no operands
 */
export function checkWeir({ assignments, words }: SimpleCommand, isMention: boolean): readonly string[] {
  const problems = assignments.flatMap(([name]) => (isSetting(name) ? [] : [`${name} is no setting`]));
  const args = words.slice(words[0] === 'npx' ? 2 : 1);
  let name = 'weir';
  while (args[0] !== undefined && known.has(`${name} ${args[0]}`)) name = `${name} ${args.shift()}`;
  const parent = name;
  name = [...known.keys()].find((child) => known.get(child)?.isDefault && parentOf(child) === parent) ?? name;
  if (name === 'weir') {
    if (/^[A-Z]+$/.test(args[0] ?? '')) return problems; // any command
    if (args[0] !== undefined && !args[0].startsWith('-')) return [...problems, `weir has no command ${args[0]}`];
    if (!args.every((arg) => known.get(name)?.flags.has(arg))) name = 'weir serve';
  }
  const command = known.get(name);
  if (command === undefined) return [...problems, `the reference has no ${name}`];
  let operands = 0;
  while (args.length > 0) {
    const [arg = '', inline] = (args.shift() ?? '').split(/=(.*)/s);
    if (!arg.startsWith('--')) operands++;
    else if (!command.flags.has(arg)) problems.push(`${name} has no flag ${arg}`);
    else problems.push(...valueProblems(name, arg, command.flags.get(arg), inline, args));
  }
  if (operands > command.maxOperands) problems.push(`${name} takes at most ${command.maxOperands} operands`);
  if (operands < command.minOperands && !isMention) problems.push(`${name} takes ${command.minOperands} operands`);
  return problems;
}

const parentOf = (command: string): string => command.slice(0, command.lastIndexOf(' '));

/** Removes a flag's value from the arguments and checks it. A value in capitals is a placeholder. */
function valueProblems(
  name: string,
  flag: string,
  expected: { readonly choices: readonly string[] } | undefined,
  inline: string | undefined,
  args: string[],
): readonly string[] {
  if (expected === undefined) return inline === undefined ? [] : [`${flag} of ${name} takes no value`];
  const value = inline ?? args.shift();
  if (value === undefined) return [];
  const isRight = expected.choices.length === 0 || expected.choices.includes(value) || /^[A-Z]+$/.test(value);
  return isRight ? [] : [`${flag} of ${name} takes ${expected.choices.join(', ')}, not ${value}`];
}
