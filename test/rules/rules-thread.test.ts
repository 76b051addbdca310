import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
});
