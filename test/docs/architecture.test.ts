import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const PROJECT = join(__dirname, '../..');
const text = readFileSync(join(PROJECT, 'docs/architecture.md'), 'utf8');

/** Where the page's paths begin, as it says or implies. */
const BASES = ['', 'src', 'src/engine', 'src/engine/rules', 'docs'];

const exists = (path: string): boolean => BASES.some((base) => existsSync(join(PROJECT, base, path)));

test('every path on the page of the architecture exists', () => {
  const paths = [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)*(?:\/|\.(?:ts|lua|cjs|json)))`/g)].map(
    ([, path = '']) => path,
  );
  expect(paths.length).toBeGreaterThan(40);
  expect(paths.filter((path) => !exists(path))).toEqual([]);
});

test('the page lists every folder of the rooms whose folders have an order', () => {
  for (const room of ['h2', 'engine', 'engine/rules', 'edge', 'operate', 'serve', 'cli']) {
    const line = text.split('\n').find((one) => one.startsWith(`| \`${room}\` |`)) ?? '';
    const folders = readdirSync(join(PROJECT, 'src', room), { withFileTypes: true }).filter((one) => one.isDirectory());
    expect(folders.map(({ name }) => name).filter((name) => !line.includes(`\`${name}\``))).toEqual([]);
  }
});
