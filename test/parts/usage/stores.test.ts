import '../../helpers/realm.ts';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Client } from 'pg';
import { FileUsage } from '../../../src/parts/usage/files.ts';
import { PostgresUsage } from '../../../src/parts/usage/postgres.ts';
import {
  MAX_SUM,
  reportPasses,
  sumInPasses,
  type UsageQuery,
  type UsageRow,
  type UsageStore,
  UsageSums,
} from '../../../src/parts/usage/usage-store.ts';
import { type Postgres, startPgBouncer, startPostgres } from '../../helpers/postgres.ts';
import fc from '../../helpers/property.ts';
import { until } from '../../helpers/until.ts';

let folder: string;
let postgres: Postgres;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'usage-'));
  postgres = await startPostgres();
});
afterAll(async () => {
  await Promise.all([postgres.stop(), rm(folder, { recursive: true })]);
});

const MAX = Number.MAX_SAFE_INTEGER;

let opened = 0;
const open: Readonly<Record<string, () => Promise<UsageStore>>> = {
  files: () => FileUsage.open(join(folder, String(opened++))),
  PostgreSQL: async () => new PostgresUsage(await postgres.createDatabase(), () => {}),
};

const all: UsageQuery = { fromHour: 0, toHour: 1e6, by: 'key', per: 'total', count: 1_000 };
const rowOf = (hour: number, key: string, hits: number, rule = 'd.user'): UsageRow => ({
  hour,
  domain: 'd',
  rule,
  key,
  hits,
});

const anyRow = fc.record({
  hour: fc.integer({ min: 470_000, max: 470_060 }),
  domain: fc.constantFrom('shop', 'llm'),
  rule: fc.constantFrom('shop.user', 'llm.tenant', ''),
  key: fc.constantFrom('user=alice', 'user=bob', 'user=a"b,c\\', 'user=\n\u{1F600}', ''),
  hits: fc.oneof(fc.integer({ min: -50, max: 1_000 }), fc.constant(2 ** 46)),
  currency: fc.constantFrom(undefined, undefined, 'USD', 'EUR'),
});
const anyQuery = fc.record({
  fromHour: fc.integer({ min: 469_990, max: 470_050 }),
  toHour: fc.integer({ min: 470_000, max: 470_070 }),
  by: fc.constantFrom('domain', 'rule', 'key'),
  per: fc.constantFrom('total', 'day', 'hour'),
  domain: fc.constantFrom(undefined, 'shop'),
  rule: fc.constantFrom(undefined, '', 'shop.user'),
  key: fc.constantFrom(undefined, 'user=alice', ''),
  count: fc.integer({ min: 1, max: 20 }),
} as const);

describe.each(Object.entries(open))('usage in %s', (_, openStore) => {
  test('reports exactly the sums of all batches, whatever is delivered again and compacted meanwhile', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(anyRow, { maxLength: 8 }), { minLength: 1, maxLength: 5 }),
        fc.array(anyQuery, { minLength: 1, maxLength: 4 }),
        fc.array(fc.nat({ max: 20 }), { maxLength: 4 }),
        async (batches, queries, repeats) => {
          const store = await openStore();
          for (const [at, rows] of batches.entries()) await store.add(`batch-${at}`, rows);
          for (const repeat of repeats) {
            const at = repeat % batches.length;
            await store.add(`batch-${at}`, batches[at] ?? []);
            if (repeat % 2 === 0) await store.tidy(0, repeat % 3 === 0 ? 0 : 480_000);
          }
          for (const query of queries) {
            const sums = new UsageSums(query);
            for (const row of batches.flat()) sums.add(row);
            expect(await store.report(query)).toEqual(sums.report());
          }
          await store.close();
        },
      ),
      { numRuns: 15 },
    );
  });

  test('pages of a report, each after the last row of the one before, are the whole report', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyRow, { minLength: 1, maxLength: 30 }), anyQuery, async (rows, query) => {
        const store = await openStore();
        await store.add('batch', rows);
        const whole = await store.report({ ...query, count: 1_000 });
        const paged: (typeof whole.rows)[number][] = [];
        for (let page = await store.report({ ...query, count: 3 }); page.rows.length > 0; ) {
          paged.push(...page.rows);
          expect(page.more).toBe(whole.rows.length - paged.length);
          page = await store.report({ ...query, count: 3, after: page.rows.at(-1) });
        }
        expect(paged).toEqual(whole.rows);
        await store.close();
      }),
      { numRuns: 15 },
    );
  });

  test('sums stop at the largest one, and block no other row', async () => {
    const store = await openStore();
    for (let at = 0; at < 3; at++)
      await store.add(
        `batch-${at}`,
        Array.from({ length: 600 }, (_, row) =>
          rowOf(100, row < 300 ? 'user=most' : 'user=least', row < 300 ? MAX : -MAX),
        ),
      );
    await store.add('others', [rowOf(100, 'user=alice', 1)]);
    const { rows } = await store.report(all);
    expect(rows.map(({ key, hits }) => [key, hits])).toEqual([
      ['user=most', MAX_SUM],
      ['user=alice', 1],
      ['user=least', -MAX_SUM],
    ]);
    await store.close();
  });

  test('deletes what is older than it is kept', async () => {
    const store = await openStore();
    await store.add('one', [rowOf(100, 'user=alice', 1), rowOf(101, 'user=alice', 2), rowOf(102, 'user=alice', 4)]);
    await store.tidy(102, 103);
    expect((await store.report(all)).hits).toBe(4);
    await store.close();
  });

  test('forgets a key in all hours, with the keys that begin with its entries', async () => {
    const store = await openStore();
    const keys = ['user=alice', 'user=alice,path=/', 'user=alice2', 'user=alice\\,x', 'team=a,user=alice'];
    for (const hour of [100, 101])
      await store.add(
        `of-${hour}`,
        keys.map((key) => rowOf(hour, key, 1)),
      );
    await store.add('other', [{ ...rowOf(100, 'user=alice', 1), domain: 'other' }]);
    await store.tidy(0, 101);
    expect(await store.forget('d', 'user=alice')).toBe(4);
    expect(await store.forget('d', 'user=alice')).toBe(0);
    await store.add('of-100', [rowOf(100, 'user=alice', 1)]); // delivered again
    const { rows } = await store.report(all);
    expect(rows.map(({ domain, key, hits }) => `${domain} ${key} ${hits}`).sort()).toEqual(
      [...keys.slice(2).map((key) => `d ${key} 2`), 'other user=alice 1'].sort(),
    );
    await store.close();
  });

  test('keeps everything over a restart, and identifies itself as the same collector', async () => {
    const path = join(folder, 'lasting');
    const url = await postgres.createDatabase();
    const reopen = () => (openStore === open.files ? FileUsage.open(path) : new PostgresUsage(url, () => {}));
    const first = await reopen();
    await first.add('one', [rowOf(100, 'user=alice', 5)]);
    await first.close();
    const second = await reopen();
    await second.add('one', [rowOf(100, 'user=alice', 5)]);
    expect((await second.report(all)).hits).toBe(5);
    expect(second.collector).toBe(first.collector);
    await second.close();
  });
});

test('PostgreSQL may be behind PgBouncer in transaction mode', async () => {
  const pgbouncer = await startPgBouncer(postgres);
  const store = new PostgresUsage(pgbouncer.urlOf(await postgres.createDatabase()), () => {});
  for (const batch of ['one', 'two', 'one']) await store.add(batch, [rowOf(100, 'user=alice', 5), rowOf(99, 'x', 1)]);
  await store.tidy(100);
  expect((await store.report(all)).hits).toBe(10);
  expect(await store.forget('d', 'user=alice')).toBe(1);
  await store.close();
  await pgbouncer.stop();
});

test.each(['PostgreSQL', 'PgBouncer'])('a report in %s is cancelled when its client has gone', async (behind) => {
  const url = await postgres.createDatabase();
  const pgbouncer = behind === 'PgBouncer' ? await startPgBouncer(postgres) : undefined;
  const store = new PostgresUsage(pgbouncer?.urlOf(url) ?? url, () => {});
  await store.add('first', [rowOf(100, 'user=alice', 5)]);
  const client = new Client(url);
  await client.connect();
  const watcher = new Client(url); // a transaction sees the activities of its first look
  await watcher.connect();
  await client.query('BEGIN; LOCK TABLE weir_usage'); // the report waits
  let isWanted = true;
  const report = store.report(all, () => isWanted);
  const running = "SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT%weir_usage%' AND wait_event_type = 'Lock'";
  await until('it runs', async () => (await watcher.query(running)).rowCount === 1);
  isWanted = false;
  await expect(report).rejects.toThrow('canceling statement due to user request');
  await client.query('COMMIT');
  expect((await store.report(all, () => true)).hits).toBe(5);
  await Promise.all([client.end(), watcher.end()]);
  await store.close();
  await pgbouncer?.stop();
});

test('reports and merges of more keys than fit into memory at once are exact', async () => {
  const rows = Array.from({ length: 1_000 }, (_, at) => rowOf(100 + (at % 2), `user=${at % 300}`, at));
  const query: UsageQuery = { ...all, per: 'hour', count: 20 };
  const sums = new UsageSums(query);
  for (const row of rows) sums.add(row);
  let passes = 0;
  async function* read() {
    passes++;
    yield rows;
  }
  expect(await reportPasses(query, sumInPasses(query, read, 50))).toEqual(sums.report());
  expect(passes).toBeGreaterThan(6);
});

test.each(['key', 'rule'] as const)(
  'sums of one %s that are too many for memory end a report nevertheless',
  async (by) => {
    const rows = Array.from({ length: 1_000 }, (_, at) => rowOf(at, 'user=alice', 1));
    const query: UsageQuery = { ...all, by, per: 'hour' };
    let passes = 0;
    async function* read() {
      passes++;
      yield rows;
    }
    expect((await reportPasses(query, sumInPasses(query, read, 50))).hits).toBe(1_000);
    expect(passes).toBeLessThan(100);
  },
);

test('a report of many keys reads each file about once', async () => {
  const path = join(folder, 'many');
  const store = await FileUsage.open(path);
  const rows = Array.from({ length: 220_000 }, (_, at) => rowOf(100, `user=${at}`, 1 + (at % 7)));
  for (const part of [0, 1, 2])
    await store.add(
      `batch-${part}`,
      rows.filter((_, at) => at % 3 === part),
    );
  const parsed = jest.spyOn(JSON, 'parse');
  const lines = (): number => parsed.mock.calls.reduce((sum, [text]) => sum + (text.match(/"user=/g)?.length ?? 0), 0);
  const first = await store.report({ ...all, count: 5 });
  expect([first.more, first.hits]).toEqual([219_995, rows.reduce((sum, { hits }) => sum + hits, 0)]);
  expect(lines()).toBeLessThan(2.2 * rows.length);
  parsed.mockClear();
  const reports = [];
  for (let part = 0; part < 8; part++) reports.push(await store.report({ ...all, count: 1e5, part, parts: 8 }));
  expect(new Set(reports.flatMap(({ rows: own }) => own.map(({ key }) => key))).size).toBe(rows.length);
  expect(lines()).toBeLessThan(1.2 * rows.length);
  parsed.mockRestore();
  await store.tidy(0, 200);
  expect((await store.report({ ...all, count: 5 })).rows).toEqual(first.rows);
});

test('files of earlier versions, whose rows have no order, are read, merged and forgotten', async () => {
  const path = join(folder, 'earlier');
  const store = await FileUsage.open(path);
  await store.add('one', [rowOf(100, 'user=bob', 1)]);
  const head = { usage: '1970-01-05T04', batches: ['two'] };
  const lines = [head, [5, 'd', 'd.user', 'user=alice'], [2, 'd', 'd.user', 'user=bob'], [3, 'd', '', 'x', 'USD']];
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  await writeFile(join(path, 'usage-1970-01-05T04-1-two.ndjson.gz'), gzipSync(text));
  const sums = async () => (await store.report(all)).rows.map(({ key, hits }) => `${key} ${hits}`);
  expect(await sums()).toEqual(['user=alice 5', 'x 3', 'user=bob 3']);
  expect(await store.forget('d', 'user=alice')).toBe(1);
  await store.tidy(0, 101);
  expect(await sums()).toEqual(['x 3', 'user=bob 3']);
});

test('a broken file is set aside and named, and costs no other usage', async () => {
  const path = join(folder, 'broken');
  const store = await FileUsage.open(path);
  await store.add('whole', [rowOf(100, 'user=alice', 1), rowOf(101, 'user=alice', 1)]);
  await store.add('short', [rowOf(100, 'user=bob', 1)]);
  const [short = ''] = (await readdir(path)).filter((name) => name.includes('short'));
  const octets = await readFile(join(path, short));
  await writeFile(join(path, short), octets.subarray(0, -20));
  await writeFile(join(path, 'usage-1970-01-05T05-1-junk.ndjson.gz'), 'junk');
  await expect(FileUsage.reading(path).report(all)).rejects.toThrow(/(short|junk).ndjson.gz cannot be read/);
  expect(await store.refused()).toBeUndefined();
  expect((await store.report(all)).hits).toBe(2);
  expect(await store.refused()).toMatch(
    /^broken files are left out \(2\): broken-usage-.*short.*, broken-usage-.*junk/,
  );
  await store.tidy(0, 200);
  expect((await store.report(all)).hits).toBe(2);
});

test('a merge that ended before it deleted its parts counts nothing twice', async () => {
  const path = join(folder, 'merged');
  const store = await FileUsage.open(path);
  for (let at = 0; at < 3; at++) await store.add(`batch-${at}`, [rowOf(100, `user=${at}`, 10 ** at)]);
  const parts = join(folder, 'parts');
  await cp(path, parts, { recursive: true });
  await store.tidy(0, 101);
  expect(await readdir(path)).toHaveLength(2); // one file, and the name of the collector
  await cp(parts, path, { recursive: true });
  const { rows, hits } = await store.report(all);
  expect(hits).toBe(111);
  expect(rows.map(({ key, hits: own }) => [key, own])).toEqual([
    ['user=2', 100],
    ['user=1', 10],
    ['user=0', 1],
  ]);
  await store.tidy(0, 101);
  expect(await readdir(path)).toHaveLength(2);
  expect((await store.report(all)).hits).toBe(111);
});

test.each(Object.keys(open))(
  'the parts of a report from %s have each row once, and their totals add up',
  async (name) => {
    const store = (await open[name]?.()) as UsageStore; // an existing name
    await store.add(
      'one',
      Array.from({ length: 300 }, (_, at) => rowOf(100 + (at % 2), `user=${at % 100}`, 1)),
    );
    for (const by of ['key', 'domain'] as const) {
      const whole = await store.report({ ...all, by });
      const parts = await Promise.all([0, 1, 2].map((part) => store.report({ ...all, by, part, parts: 3, count: 60 })));
      expect(parts.map(({ more }) => more)).toEqual([0, 0, 0]);
      expect(parts.reduce((sum, { hits }) => sum + hits, 0)).toBe(300);
      const keys = (rows: typeof whole.rows) => rows.map(({ domain, key }) => domain + key).sort();
      expect(keys(parts.flatMap(({ rows }) => rows))).toEqual(keys(whole.rows));
    }
    const [first] = await Promise.all([store.report({ ...all, part: 0, parts: 3, count: 1 })]);
    expect(first?.rows).toHaveLength(1);
    expect(first?.more).toBeGreaterThan(10);
    await store.close();
  },
);

test('before the end of an hour only files of few batches are merged, and none is counted twice', async () => {
  const path = join(folder, 'young');
  const store = await FileUsage.open(path);
  const add = async (from: number, to: number): Promise<void> => {
    for (let at = from; at < to; at++) await store.add(`batch-${at}`, [rowOf(100, `user=${at % 5}`, 1)]);
  };
  const files = async () => (await readdir(path)).filter((name) => name.startsWith('usage-')).sort();
  await add(0, 17);
  await store.tidy(0, 100);
  const [first = ''] = await files();
  expect(await files()).toEqual([first]);
  await add(10, 34); // some again
  await store.tidy(0, 100);
  expect(await files()).toHaveLength(2);
  expect(await files()).toContain(first); // not written again
  await add(0, 17); // all of one file again
  await store.tidy(0, 100);
  expect(await files()).toHaveLength(2);
  expect((await store.report(all)).hits).toBe(34);
  await store.tidy(0, 101);
  expect(await files()).toHaveLength(1);
  expect((await store.report(all)).hits).toBe(34);
});

test('a file that cannot be written leaves no part of it on the disk', async () => {
  const path = join(folder, 'unwritable');
  const store = await FileUsage.open(path);
  const unwritable = { ...rowOf(100, 'user=alice', 1), hits: 1n as unknown as number }; // as JSON
  await expect(store.add('one', [unwritable])).rejects.toThrow();
  expect(await readdir(path)).toEqual(['collector']);
});

test('a row that PostgreSQL refuses is set aside and counted, and the others are kept', async () => {
  const url = await postgres.createDatabase();
  const store = new PostgresUsage(url, () => {});
  await store.add('first', []);
  const client = new Client(url);
  await client.connect();
  await client.query("ALTER TABLE weir_usage ADD CHECK (key <> 'user=bad')");
  const rows = ['user=a', 'user=bad', 'user=b', 'user=c'].map((key) => rowOf(100, key, 1));
  expect(await store.refused()).toBeUndefined();
  await store.add('second', rows);
  expect(await store.refused()).toBe('rows that the database refused are in the table weir_usage_quarantine: 1');
  expect((await store.report(all)).hits).toBe(3);
  const { rows: kept } = await client.query('SELECT row FROM weir_usage_quarantine');
  expect(JSON.parse(kept[0].row)).toMatchObject({ key: 'user=bad', hits: 1 });
  expect(await store.forget('d', 'user=other')).toBe(0);
  expect(await store.forget('d', 'user=bad')).toBe(1);
  expect(await store.refused()).toBeUndefined();
  await client.end();
  await store.close();
});

test('several instances may add to one database at the same time', async () => {
  const url = await postgres.createDatabase();
  const stores = Array.from({ length: 4 }, () => new PostgresUsage(url, () => {}));
  const rows = Array.from({ length: 300 }, (_, at) => rowOf(100 + (at % 3), `user=${at % 50}`, 1));
  await Promise.all(
    stores.flatMap((store, at) => [
      store.add(`own-${at}`, at % 2 === 0 ? rows : rows.toReversed()),
      store.add('shared', rows),
    ]),
  );
  expect((await stores[0]?.report(all))?.hits).toBe(5 * rows.length);
  await Promise.all(stores.map((store) => store.close()));
});
