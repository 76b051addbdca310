import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../deploy/usage.ts';
import { algorithmNames } from '../src/engine/holds/limits.ts';

showHelp(`Usage: npx tsx test/rows.ts

Lists comparisons with the name of an algorithm outside the rows (src/engine/algorithms and src/engine/holds), and exits
with 1 if there is one.
`);

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const ROWS = /^src\/engine\/(algorithms|holds)\//;
const name = `['"\`](?:${algorithmNames.join('|')})['"\`]`;
/** `limit.algorithm === 'in_flight'`, `case 'token_bucket':`; the kinds of messages are no algorithms. */
const COMPARISON = new RegExp(
  `(?<![!=]|\\bkind *)[!=]==? *${name}|${name} *[!=]==? |\\bcase ${name}|${name}\\]?\\.includes|\\.includes\\(${name}`,
);

const found = ['src', 'console/src'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = relative(ROOT, join(entry.parentPath, entry.name));
    if (!entry.isFile() || !/\.tsx?$/.test(path) || ROWS.test(path)) return [];
    const lines = readFileSync(join(ROOT, path), 'utf8').split('\n');
    return lines.flatMap((line, at) => (COMPARISON.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : []));
  }),
);
if (found.length > 0) {
  const advice = `Ask the row of the limit instead (algorithmFor(limit) in src/engine/holds/limits.ts); if it has no member that
answers, add one to Row or Counting (docs/decisions/0074-rows-answer.md).`;
  process.stderr.write(`${found.join('\n')}\n${advice}\n`);
  process.exitCode = 1;
}
