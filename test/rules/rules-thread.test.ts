import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PIECES_A_MESSAGE } from '../../src/rules/rules-jobs.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

let folder: string;
let weir: Weir | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rules-thread-'));
});
afterEach(async () => {
  await weir?.stop();
  rmSync(folder, { recursive: true });
});

/** Replaces the rules of a domain: so many, each with this limit. */
function write(domain: string, count: number, limit: number): void {
  const nodes = Array.from({ length: count }, (_, at) => ({
    ...{ key: 'user', value: `u${at}`, rate_limit: { unit: 'day', requests_per_unit: limit } },
  }));
  const path = join(folder, `${domain}.yaml`);
  writeFileSync(`${path}.new`, JSON.stringify({ domain, descriptors: nodes }));
  renameSync(`${path}.new`, path);
}

test('a reload is compared in the thread that checks rules, and its log names the rules that changed', async () => {
  write('changed', 300, 1);
  write('same', 300, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write('changed', 301, 2);
  await weir.waitFor('reloaded 601 rules');
  expect(weir.output()).toMatch(
    /added changed\.user_u300; changed changed\.user_u0, .* and 295 more; counters kept: changed\.user_u0, .* and 295 more$/m,
  );
  write('changed', 300, 2); // the thread knows the rules in force by now
  await weir.waitFor('reloaded 600 rules');
  expect(weir.output()).toMatch(/removed changed\.user_u300$/m);
});

test('rules of more pieces than a message holds arrive whole', async () => {
  const PIECE_NODES = 32;
  const count = PIECE_NODES * PIECES_A_MESSAGE * 2 + 1;
  write('large', count, 1);
  write('small', 1, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write('large', count, 2);
  await weir.waitFor(`reloaded ${count + 1} rules`);
  expect(weir.output()).toMatch(/changed large\.user_u0, .* and 4092 more; counters kept: large\.user_u0/m);
});
