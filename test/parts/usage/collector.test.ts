import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { UsageSource } from '../../../src/engine/backends/usage.ts';
import { Background } from '../../../src/operate/observe/work-state.ts';
import { createCollector } from '../../../src/parts/usage/collector.ts';
import { FileUsage } from '../../../src/parts/usage/files.ts';
import { PostgresUsage } from '../../../src/parts/usage/postgres.ts';
import type { UsageStore } from '../../../src/parts/usage/usage-store.ts';
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

interface CollectOptions extends Partial<Parameters<typeof createCollector>[0]> {
  /** How far the clock is ahead. */
  readonly days?: number;
}

/** Collects twice. @returns what operators are told */
async function collect(store: UsageStore, { days = 0, ...options }: CollectOptions = {}): Promise<readonly string[]> {
  const said: string[] = [];
  const clock = () => Date.now() + days * unitMs.DAY;
  const log = { warn: (line: string) => said.push(line), error: (line: string) => said.push(line) };
  const background = new Background({ clock, log: log as never });
  const collectUsage = createCollector({
    sources: sourceOf([]),
    store,
    settleMs: 0,
    keepMs: 400 * unitMs.DAY,
    rules: () => undefined,
    hash: undefined,
    clock,
    onForeign: (name) => said.push(name),
    onDeleted: (what) => said.push(what),
    retention: background.add('usage_retention', 'deleting old usage'),
    rows: background.add('usage_rows', 'keeping every row'),
    ...options,
  });
  const state = background.add('usage', 'collecting');
  await state.run(collectUsage);
  await state.run(collectUsage);
  return said;
}

const sourceOf = (ids: readonly string[], problems: readonly string[] = []): UsageSource => {
  const left = new Set(ids);
  return {
    setAside: async () => ({ batches: Array.from(left, (id) => ({ id, ageMs: 1 })), problems }),
    async read(id) {
      if (id === 'broken') throw new Error('the node is away');
      return { entries: [{ hour: HOUR, key: '', hits: 1 }] };
    },
    drop: async (id) => void left.delete(id),
  };
};

test.each(Object.keys(stores))('a clock that is far ahead deletes no usage in %s, and says so once', async (name) => {
  const store = (await stores[name]?.()) as UsageStore; // an existing name
  const row = { domain: 'd', rule: 'd.user', key: 'user=alice', hits: 1 };
  await store.add(
    'one',
    [500 * 24, 10 * 24, 1].map((hours) => ({ ...row, hour: HOUR - hours })),
  );
  const said = await collect(store, { days: 420 });
  const kept = name === 'files' ? 3 : 2; // PostgreSQL has a clock of its own
  expect((await store.report(all)).hits).toBe(kept);
  expect(said).toEqual([
    expect.stringMatching(
      name === 'files'
        ? /^deleting old usage is failing: the clock is .*, but there is no usage from the week before the last one$/
        : /^deleted usage from before .*: 1$/,
    ),
  ]);
  await collect(store);
  expect((await store.report(all)).hits).toBe(2);
  await store.close();
});

test('usage that was counted by a wrong clock does not make the clock right, not even after a restart', async () => {
  const store = (await stores.files?.()) as UsageStore; // an existing name
  const row = { domain: 'd', rule: 'd.user', key: 'user=alice', hits: 1 };
  const ahead = HOUR + 420 * 24;
  for (let start = 0; start < 2; start++) {
    await collect(store); // the store is empty at first
    await store.add(`right-${start}`, [{ ...row, hour: HOUR }]);
    await store.add(`wrong-${start}`, [{ ...row, hour: ahead }]);
    expect(await collect(store, { days: 420 })).toEqual([expect.stringMatching(/^deleting old usage is failing/)]);
  }
  expect((await store.report(all)).hits).toBe(4);
});

test('a clock that jumps while usage is collected deletes none of it', async () => {
  const store = (await stores.files?.()) as UsageStore; // an existing name
  let days = 0;
  const clock = () => Date.now() + days * unitMs.DAY;
  const failed = jest.fn();
  const ignored = { works() {}, failed };
  const collectUsage = createCollector({
    ...{ sources: sourceOf(['one']), store, settleMs: 0, keepMs: 400 * unitMs.DAY, rules: () => undefined },
    ...{ hash: undefined, clock, onForeign() {}, onDeleted() {}, retention: ignored, rows: ignored },
  });
  await collectUsage();
  days = 420;
  await collectUsage();
  expect((await store.report(all)).hits).toBe(1);
  expect(failed).toHaveBeenCalledTimes(1);
});

test('what cannot be collected costs no other usage, and is named', async () => {
  const store = (await stores.files?.()) as UsageStore; // an existing name
  const sources = sourceOf(['one', 'broken', 'two'], ['w:{a}weir|usage is a string']);
  expect(await collect(store, { sources })).toEqual([
    'collecting is failing: the node is away; w:{a}weir|usage is a string',
  ]);
  expect((await store.report(all)).hits).toBe(2);
});

test('rows that PostgreSQL refuses are reported until they are removed', async () => {
  const url = await postgres.createDatabase();
  const store = new PostgresUsage(url, () => {});
  await store.add('first', []);
  const client = new Client(url);
  await client.connect();
  await client.query('ALTER TABLE weir_usage ADD CHECK (hits < 1)');
  const said = 'rows that the database refused are in the table weir_usage_quarantine: 1';
  expect(await collect(store, { sources: sourceOf(['one']) })).toEqual([`keeping every row is failing: ${said}`]);
  await client.query('DELETE FROM weir_usage_quarantine');
  expect(await collect(store)).toEqual([]);
  await client.end();
  await store.close();
});
