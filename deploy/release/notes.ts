/**
 * Prints the section of a version in CHANGELOG.md: `npx tsx deploy/release/notes.ts 0.3.0`. Exits with 1 if there is
 * none.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { showUsage } from '../usage.ts';

/** The text below `## VERSION` or `## VERSION - DATE`, up to the next section; undefined if missing or empty. */
export function releaseNotes(changelog: string, version: string): string | undefined {
  const [, ...sections] = changelog.split(/^## /m);
  const section = sections.find((text) => text.split(/\s/, 1)[0] === version);
  return section?.slice(section.indexOf('\n')).trim() || undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showUsage(
    'Usage: npx tsx deploy/release/notes.ts [VERSION]\n\nPrints the section of a version in CHANGELOG.md; without a version, the unreleased section.\n',
    1,
  );
  const [version = 'Unreleased'] = process.argv.slice(2);
  const notes = releaseNotes(
    readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8'),
    version.replace(/^v/, ''),
  );
  if (notes === undefined) {
    console.error(`CHANGELOG.md has no section ${version}, or an empty one`);
    process.exitCode = 1;
  } else console.log(notes);
}
