import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { accuracyPage, compareAlgorithms } from './page.ts';

export const usage = `Usage: npm run proof -- accuracy [--write]

Decides seeded traffic with every algorithm and with an exact log, and prints docs/results/accuracy.md.
Exits with 1 if the page has other bytes.

  --write  writes the page
  --help   this text
`;

const PAGE = new URL('../../docs/results/accuracy.md', import.meta.url);

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { write: { type: 'boolean', default: false } } });
  const page = accuracyPage(compareAlgorithms());
  process.stdout.write(page);
  if (values.write) writeFileSync(PAGE, page);
  else if (readFileSync(PAGE, 'utf8') !== page) throw new Error('docs/results/accuracy.md has other bytes');
}
