import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { table } from '../tables/table.ts';
import { type Client, clients } from './clients.ts';
import { commandOf, installClients } from './install.ts';
import { answers, reactionsOf } from './measure.ts';

export const usage = `Usage: npm run proof -- clients [NAME...] [--write]

Sends a request with each of the clients, or with those whose name contains a NAME, to a server that refuses it with
several sets of headers, and prints how long they wait. Installs the clients into .cache/clients; needs npm, Python
and Go. Exits with 1 if the table of docs/headers.md is another one, unless only some clients were chosen.

  --write  writes the table into docs/headers.md
  --help   this text

With CLIENT_ERRORS=1 it prints what the clients write to stderr.
`;

const PAGE = new URL('../../docs/headers.md', import.meta.url);
const TABLE = /^\| client \|.*\n(?:\|.*\n)+/m;

export async function run(args: readonly string[]): Promise<void> {
  const options = { write: { type: 'boolean', default: false } } as const;
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const chosen = clients.filter(
    ({ name }) => positionals.length === 0 || positionals.some((one) => name.includes(one)),
  );
  installClients();
  const rows: string[][] = [];
  for (const client of chosen) rows.push([described(client), ...(await reactionsOf(commandOf(client)))]);
  const printed = `${table(['client', ...answers.map(({ column }) => column)], answers.length + 1, rows)}\n`;
  process.stdout.write(printed);
  if (positionals.length > 0) return;
  const page = readFileSync(PAGE, 'utf8');
  if (values.write)
    writeFileSync(
      PAGE,
      page.replace(TABLE, () => printed),
    );
  else if (!page.includes(printed)) throw new Error('docs/headers.md has another table');
}

/** The first cell of a client's row. */
export function described({ name, language, packages: [first] }: Client): string {
  const version =
    first === undefined ? '' : ` ${first.slice(first.lastIndexOf(language === 'python' ? '=' : '@') + 1)}`;
  return `${name}${version}${language === 'node' ? '' : ` (${language === 'go' ? 'Go' : 'Python'})`}`;
}
