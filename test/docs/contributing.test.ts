import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));

const text = readFileSync(`${PROJECT}CONTRIBUTING.md`, 'utf8');
const [, table = ''] = /Where does it go\?\n\n((?:\|.*\n)+)/.exec(text) ?? [];
const rows = table.split('\n').slice(2, -1);

test('CONTRIBUTING lists the files for five kinds of changes', () => expect(rows).toHaveLength(5));

test.each(rows)('the files of this row of CONTRIBUTING exist: %s', (row) => {
  const paths = Array.from(row.matchAll(/`((?:src|test|docs)\/[\w./-]*)`/g), ([, path = '']) => path);
  expect(paths).not.toEqual([]);
  expect(paths.filter((path) => !path.includes('NAME') && !existsSync(PROJECT + path))).toEqual([]);
});
