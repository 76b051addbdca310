import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { childrenOf } from '../helpers/child-processes.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const LIMIT_AND_MORE_MS = 100_000;

let folder: string;
let weir: Weir | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'hung-rules-process-'));
});
afterEach(async () => {
  await weir?.stop();
  rmSync(folder, { recursive: true });
});

/** Writes a file with `count` rules. */
function write(count: number): void {
  const nodes = Array.from({ length: count }, (_, at) => ({
    ...{ key: 'user', value: `u${at}`, rate_limit: { unit: 'day', requests_per_unit: 1 } },
  }));
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify({ domain: 'demo', descriptors: nodes }));
}

test('a rules process that hangs is killed and logged after a minute, and rules are reloaded', async () => {
  write(2);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write(3);
  await weir.waitFor('reloaded 3 rules');
  const [pid] = childrenOf(weir.pid); // its only child
  if (pid === undefined) throw new Error('there must be a process that checks rules, got none');
  process.kill(pid, 'SIGSTOP');
  write(4);
  await weir.waitFor('the process that checks rules did not finish within 60 s', LIMIT_AND_MORE_MS);
  await weir.waitFor('reloaded 4 rules');
});
