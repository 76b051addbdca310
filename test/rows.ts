import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../deploy/usage.ts';
import { algorithmNames } from '../src/engine/holds/limits.ts';

showHelp(`Usage: npx tsx test/rows.ts

Lists comparisons with the name of an algorithm outside the rows (src/engine/algorithms, src/engine/holds, and parts
that add some), and exits with 1 if there is one, or if folders of the core share too many names.
`);

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const ROWS = /^src\/(engine\/(algorithms|holds)|parts\/(adaptive|penalty|sites))\//;
const name = `['"\`](?:${algorithmNames.join('|')})['"\`]`;
/** `limit.algorithm === 'in_flight'`, `case 'token_bucket':`; the kinds of messages are no algorithms. */
const COMPARISON = new RegExp(
  `(?<![!=]|\\bkind *)[!=]==? *${name}|${name} *[!=]==? |\\bcase ${name}|${name}\\]?\\.includes|\\.includes\\(${name}`,
);

const files = ['src', 'console/src'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = relative(ROOT, join(entry.parentPath, entry.name));
    const isSource = entry.isFile() && /\.tsx?$/.test(path);
    return isSource ? [{ path, lines: readFileSync(join(ROOT, path), 'utf8').split('\n') }] : [];
  }),
);

const found = files.flatMap(({ path, lines }) =>
  ROWS.test(path)
    ? []
    : lines.flatMap((line, at) => (COMPARISON.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
);
if (found.length > 0) {
  const advice = `Ask the row of the limit instead (algorithmFor(limit) in src/engine/holds/limits.ts); if it has no member that
answers, add one to Row or Counting (docs/decisions/0074-rows-answer.md).`;
  process.stderr.write(`${found.join('\n')}\n${advice}\n`);
  process.exitCode = 1;
}

/** Names of the core that other folders import: what a reader has to know of each folder. */
const MAX_SHARED_NAMES = 1_100;

const IMPORT = /^(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)'/gm;
const shared = new Set<string>();
for (const { path, lines } of files.filter((file) => file.path.startsWith('src/')))
  for (const [, names = '', from = ''] of lines.join('\n').matchAll(IMPORT)) {
    const source = join(dirname(path), from);
    if (dirname(source) === dirname(path) || source.startsWith('src/parts/')) continue;
    for (const [name] of names.matchAll(/(?<!as )\b(?!type |as )\w+/g)) shared.add(`${source} ${name}`);
  }
if (shared.size > MAX_SHARED_NAMES) {
  process.stderr.write(
    `Folders of the core share ${shared.size} names, more than ${MAX_SHARED_NAMES} (test/rows.ts).\n`,
  );
  process.exitCode = 1;
}
