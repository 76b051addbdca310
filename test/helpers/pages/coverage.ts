import { checkCommand, programs } from './check-command.ts';
import { exceptions, leavesOut } from './exceptions.ts';
import { blocksOf, inlineCodeOf, isShell, textOf } from './page.ts';
import { isRunnable } from './run-page.ts';
import { ownTests, pageRuns } from './runs.ts';
import { commandsIn, formsOf, type SimpleCommand } from './shell.ts';

/**
 * How the commands of a page are tested: by running them, by static checks, or not at all, for the reason of an
 * exception.
 */
export type Fate = 'run' | 'checked' | 'excepted';

/** A block of commands, or a command in a sentence. */
export interface Passage {
  readonly page: string;
  readonly line: number;
  readonly text: string;
  readonly isMention: boolean;
}

const COMMAND = new RegExp(`^(?:[A-Z][A-Z_]*=\\S* )*(?:${programs.join('|')})(?= |$)`);

export function passagesOf(page: string): readonly Passage[] {
  const text = textOf(page);
  const blocks = blocksOf(text).filter(isShell);
  const mentions = inlineCodeOf(text).filter((code) => COMMAND.test(code.text) && code.text.includes(' '));
  return [
    ...blocks.map((block) => ({ page, line: block.line, text: block.text, isMention: false })),
    ...mentions.map((code) => ({ page, line: code.line, text: code.text, isMention: true })),
  ];
}

function isRun({ page, text, isMention }: Passage): boolean {
  if (isMention) return false;
  return (
    ownTests[page] !== undefined || (pageRuns[page] !== undefined && !leavesOut(page, text) && isRunnable({ text }))
  );
}

/** The text that `exceptions` are matched against: the command without its variables. */
export const lineOf = ({ words }: SimpleCommand): string => words.join(' ');

const commandsOf = ({ text, isMention }: Passage): readonly SimpleCommand[] =>
  isMention ? formsOf(text).flatMap(commandsIn) : commandsIn(text);

export interface Verdict {
  readonly fate: Fate;
  readonly problems: readonly string[];
  /** The exceptions that the commands need. */
  readonly needed: readonly (typeof exceptions)[number][];
}

export async function judge(passage: Passage): Promise<Verdict> {
  const fate = isRun(passage) ? 'run' : 'checked';
  const problems: string[] = [];
  const needed: (typeof exceptions)[number][] = [];
  for (const command of commandsOf(passage)) {
    const exception = exceptions.find((one) => one.command.test(lineOf(command)));
    const found = exception ? [] : await checkCommand(command, passage.isMention);
    if (exception) needed.push(exception);
    problems.push(...(found ?? [`no test runs or checks ${lineOf(command)}`]));
  }
  const isForgotten =
    fate !== 'run' && !passage.isMention && isRunnable(passage) && !leavesOut(passage.page, passage.text);
  if (isForgotten) problems.push('could be run: add the page to test/helpers/pages/runs.ts');
  return { fate: needed.length > 0 && fate === 'checked' ? 'excepted' : fate, problems, needed };
}
