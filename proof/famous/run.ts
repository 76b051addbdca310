import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { famousPage } from './page.ts';

export const usage = `Usage: npm run proof -- famous [--write]

Decides a seeded trace with the rule file of each well-known limit, and prints docs/famous-limiters.md.
Exits with 1 if the page has other bytes.

  --write  writes the page
  --help   this text
`;

const PAGE = new URL('../../docs/famous-limiters.md', import.meta.url);

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { write: { type: 'boolean', default: false } } });
  const page = await famousPage();
  process.stdout.write(page);
  if (values.write) writeFileSync(PAGE, page);
  else if (readFileSync(PAGE, 'utf8') !== page) throw new Error('docs/famous-limiters.md has other bytes');
}
