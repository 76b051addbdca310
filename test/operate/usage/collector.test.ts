import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { UsageCollector } from '../../../src/operate/usage/collector.ts';
import { FileUsage } from '../../../src/operate/usage/files.ts';
import { PostgresUsage } from '../../../src/operate/usage/postgres.ts';
import type { UsageStore } from '../../../src/operate/usage/usage-store.ts';
import { type Postgres, startPostgres } from '../../helpers/postgres.ts';

let folder: string;
let postgres: Postgres;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'collector-'));
  postgres = await startPostgres();
});
afterAll(async () => {
  await Promise.all([postgres.stop(), rm(folder, { recursive: true })]);
});

let opened = 0;
const stores: Readonly<Record<string, () => Promise<UsageStore>>> = {
  files: () => FileUsage.open(join(folder, String(opened++))),
  PostgreSQL: async () => new PostgresUsage(await postgres.createDatabase(), () => {}),
};

const HOUR = Math.floor(Date.now() / unitMs.HOUR);
const all = { fromHour: 0, toHour: 1e7, by: 'key', per: 'total', count: 10 } as const;

/** Collects with a clock that is this number of days ahead. */
async function collectAhead(store: UsageStore, days: number): Promise<readonly string[]> {
  const said: string[] = [];
  const collector = new UsageCollector({
    sources: { setAside: async () => [], read: async () => undefined, drop: async () => {} },
    store,
    settleMs: 0,
    keepMs: 400 * unitMs.DAY,
    rules: () => undefined,
    hash: undefined,
    clock: () => Date.now() + days * unitMs.DAY,
    onLeftOut: (what) => said.push(what),
    onTidy: (what) => said.push(what),
  });
  await collector.collect();
  await collector.collect();
  return said;
}

test.each(Object.keys(stores))('a clock that is far ahead deletes no usage in %s, and says so once', async (name) => {
  const store = (await stores[name]?.()) as UsageStore; // an existing name
  const row = { domain: 'd', rule: 'd.user', key: 'user=alice', hits: 1 };
  await store.add(
    'one',
    [500 * 24, 1].map((hours) => ({ ...row, hour: HOUR - hours })),
  );
  const said = await collectAhead(store, 420);
  expect((await store.report(all)).hits).toBe(name === 'files' ? 2 : 1); // PostgreSQL has a clock of its own
  expect(said).toEqual([
    expect.stringMatching(
      name === 'files' ? /^no usage is deleted: the clock is / : /^deleted usage from before .*: 1 /,
    ),
  ]);
  await collectAhead(store, 0);
  expect((await store.report(all)).hits).toBe(1);
  await store.close();
});
