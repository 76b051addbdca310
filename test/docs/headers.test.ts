import { readFileSync } from 'node:fs';
import { clients } from '../../proof/clients/clients.ts';
import { answers } from '../../proof/clients/measure.ts';
import { described } from '../../proof/clients/run.ts';

test('docs/headers.md has the clients, versions and headers that npm run proof -- clients measures', () => {
  const page = readFileSync(new URL('../../docs/headers.md', import.meta.url), 'utf8');
  const [, table = ''] = /^(\| client \|.*\n(?:\|.*\n)+)/m.exec(page) ?? [];
  const [head, , ...rows] = table.trimEnd().split('\n');
  expect(head).toBe(`| client | ${answers.map(({ column }) => column).join(' | ')} |`);
  expect(rows.map((row) => row.split(' | ')[0])).toEqual(clients.map((client) => `| ${described(client)}`));
});
