import { writeFileSync } from 'node:fs';
import { settingsTable } from '../src/settings.ts';

/** The pages under docs/ that are made from the code, by name. `npm run docs` writes them; a test compares them. */
export const generatedPages: ReadonlyMap<string, string> = new Map([['settings.md', settingsPage()]]);

function settingsPage(): string {
  const rows = settingsTable.map(({ name, fallback, meaning }) => {
    const shown = fallback === undefined ? 'not set' : fallback === '' ? 'empty' : `\`${fallback}\``;
    return `| \`${name}\` | ${shown} | ${meaning.replaceAll('|', '\\|')} |`;
  });
  return `${[
    '# Settings',
    '',
    'Environment variables, read once at the start. This page is made from `src/settings.ts` by `npm run docs`.',
    '',
    'Flags are `true` or `false` (also `1`, `t`, `0`, `f`); durations are written as in Go: `150ms`, `10s`, `1h30m`. A variable that is',
    'set but empty counts as set. Wrong values end the start, all of them named.',
    '',
    '| variable | default | meaning |',
    '| --- | --- | --- |',
    ...rows,
  ].join('\n')}\n`;
}

if (import.meta.url === `file://${process.argv[1]}`) {
  for (const [name, text] of generatedPages) writeFileSync(new URL(name, import.meta.url), text);
}
