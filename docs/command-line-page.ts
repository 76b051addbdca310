import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PRINTER = fileURLToPath(new URL('print-command-line.ts', import.meta.url));

/** The reference of the command line: the output of `--help` for each command. */
export function commandLinePage(): string {
  const env = { PATH: process.env.PATH, NO_COLOR: '1' };
  const printed = execFileSync(process.execPath, ['--import', 'tsx', PRINTER], { cwd: ROOT, encoding: 'utf8', env });
  const helps = JSON.parse(printed) as readonly { readonly name: string; readonly help: string }[];
  return `${[
    '# Command line',
    '',
    'What `npx weir COMMAND --help` prints, for each command. This page is generated from the commands by `npm run docs`.',
    'Settings of the service are environment variables: [Settings](settings.md).',
    ...helps.flatMap(({ name, help }) => ['', `## ${name}`, '', '```text', help.trimEnd(), '```']),
  ].join('\n')}\n`;
}
