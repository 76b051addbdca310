import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plainPath } from '../../../../src/engine/rules/reload/files.ts';
import { eventually } from '../../../helpers/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'many-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('in a folder of many files, every kind of change is seen', async () => {
  mkdirSync(join(folder, 'more'));
  for (let at = 0; at < 1_000; at++) writeFileSync(join(folder, at % 2 ? 'more' : '.', `r${at}.yaml`), 'a');
  const source = plainPath(folder);
  const list = async (): Promise<string> => (await source.list()).map(({ state }) => state).join('\n');
  for (let poll = 0; poll < 4; poll++) await list();
  const changes = {
    write: () => writeFileSync(join(folder, 'more', 'r999.yaml'), 'bb'),
    add: () => writeFileSync(join(folder, 'more', 's.yaml'), 'a'),
    replace: () => renameSync(join(folder, 'more', 's.yaml'), join(folder, 'r4.yaml')),
    remove: () => rmSync(join(folder, 'r6.yaml')),
  };
  for (const [kind, change] of Object.entries(changes)) {
    const before = await list();
    expect([kind, await list()]).toEqual([kind, before]);
    change();
    await eventually(
      async () => (await list()) !== before,
      () => kind,
      10_000,
    );
  }
  expect((await source.list()).length).toBe(999);
  source.close?.();
});
