import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../../deploy/usage.ts';
import { exceptions, pending, pendingNames } from './exceptions.ts';
import { judge } from './judge.ts';
import { scan, sharedNames } from './scan.ts';

showHelp(`Usage: npm run check [-- --count]

Checks format, lint, types, import rules and vocabulary: words and phrases that this
project does not use, and names that several exported types share.

  --count  print the findings of the vocabulary per folder, allowed ones included
`);

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PLACES = [
  'src',
  'docs',
  'config',
  'test',
  'proof',
  'deploy',
  'console',
  'site',
  'tour',
  'client/src',
  'examples',
];
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'envoy.yaml', 'client/README.md'];

const files = [
  ...PLACES.flatMap((place) =>
    readdirSync(join(ROOT, place), { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() && /\.(?:tsx?|mjs|lua|md|yaml)$/.test(entry.name)
        ? [relative(ROOT, join(entry.parentPath, entry.name))]
        : [],
    ),
  ),
  ...PAGES,
].filter(
  (file) => !file.startsWith('test/words/') && !/\/(?:tools|dist)\//.test(file) && !/^test\/.*\.yaml$/.test(file),
);

const contents = new Map(files.map((file) => [file, readFileSync(join(ROOT, file), 'utf8')]));
const findings = [...contents].flatMap(([file, content]) => scan(file, content));
const sources = new Map([...contents].filter(([file]) => file.startsWith('src/') && file.endsWith('.ts')));
const shared = [...sharedNames(sources)].filter(([name]) => !pendingNames.includes(name));

/** The longest line of a comment. The formatter wraps lines of code. */
const MAX_COMMENT = 120;
const longComments = [...contents].flatMap(([file, content]) =>
  /^(?:client\/)?src\//.test(file) && /\.(?:ts|lua)$/.test(file)
    ? content
        .split('\n')
        .flatMap((line, at) =>
          line.length > MAX_COMMENT && /^\s*(?:\/?\*|\/\/|--)/.test(line)
            ? [`${file}:${at + 1}: a comment has lines of at most ${MAX_COMMENT} characters, got ${line.length}`]
            : [],
        )
    : [],
);

/** What the service is for, of which its HTTP/2 server knows nothing. */
const PURPOSE = /envoy|rate.?limit|descriptor|kuadrant|weir|quota|decision|\brl(?:s|qs)\b|\bdomain/i;
const purposeInServer = [...contents].flatMap(([file, content]) =>
  file.startsWith('src/h2/')
    ? content
        .split('\n')
        .flatMap((line, at) =>
          PURPOSE.test(line) ? [`${file}:${at + 1}: src/h2 must not name what it is used for`] : [],
        )
    : [],
);

if (process.argv.includes('--count')) {
  const counts: Record<string, Record<string, number>> = {};
  for (const { file, pattern } of findings) {
    const folder = file.replace(/\/[^/]*$/, '/');
    counts[folder] ??= {};
    counts[folder][pattern.name] = (counts[folder][pattern.name] ?? 0) + 1;
  }
  process.stdout.write(`${JSON.stringify(counts, undefined, 2)}\n`);
} else {
  const problems = [
    ...judge(findings, exceptions, pending),
    ...longComments,
    ...purposeInServer,
    ...shared.map(([name, places]) => `${places.join(', ')}: several exported types are named ${name}`),
  ];
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
}
