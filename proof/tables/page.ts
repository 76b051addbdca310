import { readFileSync, writeFileSync } from 'node:fs';
import { wrapped } from '../../docs/wrap.ts';

const [BEGIN, END] = ['<!-- results: begin -->', '<!-- results: end -->'];

/** Replaces the results of a page in docs/results, and its date. @throws Error if it has no place for them */
export function writePage(name: string, results: string): void {
  const path = new URL(`../../docs/results/${name}`, import.meta.url);
  const page = readFileSync(path, 'utf8');
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`expected ${BEGIN} and ${END} in docs/results/${name}`);
  const dated = page.replace(/^\| date \| .* \|$/m, `| date | ${new Date().toISOString().slice(0, 10)} |`);
  writeFileSync(
    path,
    wrapped(`${dated.slice(0, begin + BEGIN.length)}\n\n${results}\n${dated.slice(dated.indexOf(END))}`),
  );
}
