import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PROJECT = join(__dirname, '../..');
const PARTS = 'src/parts';
const parts = readdirSync(join(PROJECT, PARTS), { withFileTypes: true }).filter((one) => one.isDirectory());
const LINKED = ['node_modules', 'proto', 'package.json'];
const config = {
  extends: './tsconfig.json',
  compilerOptions: { noEmit: true },
  include: ['src/**/*.ts'],
};

let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'without-part-'));
  cpSync(join(PROJECT, 'src'), join(copy, 'src'), { recursive: true });
  cpSync(join(PROJECT, 'tsconfig.json'), join(copy, 'tsconfig.json'));
  for (const name of LINKED) symlinkSync(join(PROJECT, name), join(copy, name));
  writeFileSync(join(copy, 'without.json'), JSON.stringify(config));
});
afterEach(() => rmSync(copy, { recursive: true }));

/** Without the lines that import its files or begin with its name. */
const withoutPart = (list: string, name: string): string =>
  list
    .split('\n')
    .filter((line) => !line.includes(`'./${name}/`) && !line.startsWith(`  ${name}:`))
    .join('\n');

test.each(parts.map(({ name }) => name))('the rest compiles without the part %s', (name) => {
  const list = join(copy, PARTS, 'parts.ts');
  const before = readFileSync(list, 'utf8');
  writeFileSync(list, withoutPart(before, name));
  expect(readFileSync(list, 'utf8')).not.toBe(before);
  rmSync(join(copy, PARTS, name), { recursive: true });
  const tsc = join(PROJECT, 'node_modules/.bin/tsc');
  try {
    execFileSync(tsc, ['-p', 'without.json'], { cwd: copy, encoding: 'utf8' });
  } catch (error) {
    throw new Error(String((error as { stdout?: string }).stdout)); // of a process
  }
});
