import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../deploy/usage.ts';
import { longLines, MAX_LINE, wrapped } from './wrap.ts';

showHelp(`Usage: npx tsx docs/lines.ts [--fix]

Lists lines of more than ${MAX_LINE} characters in the Markdown of README.md, docs/ and so on, and exits with 1 if there
is one. Code, tables, headings, pictures and long links are exempt.

  --fix  wraps them
`);

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'client/README.md', 'findings/README.md'];

const pages = [
  ...PAGES,
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() && entry.name.endsWith('.md') ? [relative(ROOT, join(entry.parentPath, entry.name))] : [],
  ),
];

for (const page of pages) {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const tooLong = longLines(text);
  if (tooLong.length === 0) continue;
  if (process.argv.includes('--fix')) {
    writeFileSync(join(ROOT, page), wrapped(text));
    continue;
  }
  process.exitCode = 1;
  for (const line of tooLong)
    process.stderr.write(`${page}:${line}: more than ${MAX_LINE} characters: npm run format\n`);
}
