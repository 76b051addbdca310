import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
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

/** The nice values of a process's threads, its main thread's first. */
function niceOfThreads(pid: number): readonly number[] {
  const threads = readdirSync(`/proc/${pid}/task`).sort((one, other) => Number(one) - Number(other));
  return threads.map((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });
}

test('the thread that checks and compares rules stands back behind those that answer requests', async () => {
  write('changed', 300, 1);
  write('same', 300, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  const [main = 0, ...others] = niceOfThreads(weir.pid);
  expect(others.every((nice) => nice === main)).toBe(true);
  write('changed', 301, 2);
  await weir.waitFor('reloaded 601 rules');
  expect(niceOfThreads(weir.pid).filter((nice) => nice !== main)).toEqual([Math.min(main + 10, 19)]);
  expect(weir.output()).toMatch(
    /added changed\.user_u300; changed changed\.user_u0, .* and 295 more; counters kept: changed\.user_u0, .* and 295 more$/m,
  );
});
