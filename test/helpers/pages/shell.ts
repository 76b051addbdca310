/** A command without operators such as pipes: `NAME=value program argument`. */
export interface SimpleCommand {
  readonly assignments: readonly (readonly [name: string, value: string])[];
  /** The program and its arguments, without quotes. */
  readonly words: readonly string[];
}

const WORD = String.raw`(?:'[^']*'|"(?:\\.|[^"\\])*"|\$\([^)]*\)|\\[^\n]|[^\s'"|&;()<>\\])+`;
const TOKEN = new RegExp(
  [
    String.raw`(?<skipped>\\\n|#[^\n]*)`,
    String.raw`(?<redirection>\d?(?:>>?|<)\s*(?:&\d|${WORD})?)`,
    `(?<word>${WORD})`,
    String.raw`(?<end>&&|\|\||[|&;()\n])`,
  ].join('|'),
  'g',
);

/** The simple commands of a script, in order; of a loop, those in its body. */
export function commandsIn(script: string): readonly SimpleCommand[] {
  const all: string[][] = [[]];
  for (const { groups } of script.matchAll(TOKEN)) {
    if (groups?.word !== undefined) all.at(-1)?.push(groups.word);
    else if (groups?.end !== undefined) all.push([]);
  }
  return all.map(simple).filter(({ words, assignments }) => words.length + assignments.length > 0);
}

function simple(written: readonly string[]): SimpleCommand {
  const words = written.filter((word) => word !== 'do' && word !== 'done');
  if (words[0] === 'for') return { assignments: [], words: [] };
  const first = words.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word));
  const count = first === -1 ? words.length : first;
  return {
    assignments: words.slice(0, count).map((word) => {
      const [, name = '', value = ''] = /^(\w+)=(.*)$/s.exec(word) ?? [];
      return [name, unquoted(value)];
    }),
    words: words.slice(count).map(unquoted),
  };
}

const unquoted = (word: string): string =>
  word.replace(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/gs, (_, single, double, escaped) => single ?? double ?? escaped);

/** Expands `a|b` and `[--flag VALUE]` in the summary of a command to all forms of it. */
export function formsOf(summary: string): readonly string[] {
  const text = summary.replace(/[[\]…]/g, '').trim();
  const [choice] = /[\w-]+(?:\|[\w-]+)+/.exec(text) ?? [];
  return choice === undefined ? [text] : choice.split('|').map((one) => text.replace(choice, one));
}
