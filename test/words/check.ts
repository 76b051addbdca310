import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exceptions, pending } from './exceptions.ts';
import { judge } from './judge.ts';
import { scan } from './scan.ts';

/** Fails on words and phrases that the vocabulary of this project does not use. `--count` prints the findings per folder instead. */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PLACES = ['src', 'docs', 'test', 'bench', 'chaos', 'attack'];
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'envoy.yaml'];

const files = [
  ...PLACES.flatMap((place) =>
    readdirSync(join(ROOT, place), { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() && /\.(?:ts|lua|md)$/.test(entry.name) ? [relative(ROOT, join(entry.parentPath, entry.name))] : [],
    ),
  ),
  ...PAGES,
].filter((file) => !file.startsWith('test/words/') && !file.includes('/tools/'));

const findings = files.flatMap((file) => scan(file, readFileSync(join(ROOT, file), 'utf8')));

if (process.argv.includes('--count')) {
  const counts: Record<string, Record<string, number>> = {};
  for (const { file, pattern } of findings) {
    const folder = file.replace(/\/[^/]*$/, '/');
    counts[folder] ??= {};
    counts[folder][pattern.name] = (counts[folder][pattern.name] ?? 0) + 1;
  }
  process.stdout.write(`${JSON.stringify(counts, undefined, 2)}\n`);
} else {
  const problems = judge(findings, exceptions, pending);
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
}
