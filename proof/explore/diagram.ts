import type { Line } from './world.ts';

const WIDTH = 34;

/** A sequence diagram in text: a column for each party, and a line for each step. */
export function drawSequence(parties: readonly string[], lines: readonly Line[]): string {
  const middle = (at: number): number => at * WIDTH + 4;
  const width = middle(parties.length - 1) + WIDTH;
  const blank = (mark: string): string[] => {
    const row = new Array<string>(width).fill(' ');
    for (const at of parties.keys()) row[middle(at)] = mark;
    return row;
  };
  const write = (row: string[], from: number, text: string): string => {
    for (const [at, letter] of [...text].entries()) row[from + at] = letter;
    return row.join('').trimEnd();
  };
  const head = new Array<string>(width).fill(' ');
  for (const [at, party] of parties.entries())
    write(head, Math.max(middle(at) - Math.floor(party.length / 2), 0), party);
  const rows = lines.map(({ from, to, text, fate }) => {
    const at = parties.indexOf(from);
    const target = to === undefined ? -1 : parties.indexOf(to);
    if (at < 0) return `--- ${text} `.padEnd(width - WIDTH / 2, '-');
    if (target < 0) return write(blank('|'), middle(at), `* ${text}`);
    const [left, right] = [middle(Math.min(at, target)), middle(Math.max(at, target))];
    const row = blank('|');
    for (let place = left + 1; place < right; place++) row[place] = '-';
    const isRight = at < target;
    if (fate === 'lost') row[isRight ? right - 2 : left + 2] = 'X';
    else row[isRight ? right - 1 : left + 1] = isRight ? '>' : '<';
    const note = fate === undefined ? '' : ` (${fate === 'lost' ? 'lost' : 'twice'})`;
    return write(row, left + 3, ` ${`${text}${note}`.slice(0, right - left - 8)} `);
  });
  return [head.join('').trimEnd(), ...rows].join('\n');
}
