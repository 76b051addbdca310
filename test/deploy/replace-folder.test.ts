import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { replaceFolder } from '../../deploy/replace-folder.ts';

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'replaced-'));
});
afterEach(() => rmSync(parent, { recursive: true }));

function complete(name: string, file: string): string {
  const folder = join(parent, name);
  mkdirSync(folder);
  writeFileSync(join(folder, file), '');
  return folder;
}

test('a build replaces the previous one, and the remains of one that was killed', () => {
  const dist = join(parent, 'dist');
  replaceFolder(dist, complete('dist.building', 'first.js'));
  expect(readdirSync(dist)).toEqual(['first.js']);
  complete('dist.replaced', 'killed.js');
  replaceFolder(dist, complete('dist.building', 'second.js'));
  expect(readdirSync(dist)).toEqual(['second.js']);
  expect(readdirSync(parent)).toEqual(['dist']);
});
