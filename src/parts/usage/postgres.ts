import { createHash } from 'node:crypto';
import { Pool, type PoolClient, type QueryResult, type QueryResultRow } from 'pg';
import { every } from '../../base/clock.ts';
import {
  ALL_USAGE,
  addSpent,
  MAX_SUM,
  saturated,
  type UsageGroup,
  type UsagePeriod,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
  type UsageStore,
  UsageSums,
} from './usage-store.ts';

/** Each step is run once, in order. A later version of the service appends to them, and changes none. */
const MIGRATIONS = [
  `CREATE TABLE weir_usage (
     hour bigint NOT NULL, domain text NOT NULL, rule text NOT NULL, key text NOT NULL, hits bigint NOT NULL,
     id bytea NOT NULL, PRIMARY KEY (hour, id))`,
  `CREATE TABLE weir_usage_batches (batch text PRIMARY KEY, added_at timestamptz NOT NULL DEFAULT now())`,
  `ALTER TABLE weir_usage ADD COLUMN currency text NOT NULL DEFAULT ''`,
  `CREATE TABLE weir_usage_quarantine (batch text NOT NULL, reason text NOT NULL, row text NOT NULL)`,
  `ALTER TABLE weir_usage_quarantine ADD COLUMN domain text NOT NULL DEFAULT '', ADD COLUMN key text NOT NULL DEFAULT ''`,
] as const;

/** The lock of migrations, in the database. */
const LOCK = 0x77_65_69_72; // "weir"
/** Rows in one statement. */
const SLICE = 5_000;
/** Refused rows that are counted. */
const MAX_COUNTED = 1_000;
/** A batch is not delivered again after this time. */
const BATCHES_KEPT = '30 days';
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** The interval at which is checked whether a client still waits for its report. */
const WANTED_INTERVAL_MS = 1_000;

/** Usage in PostgreSQL, which all instances may share: a row for each key and hour, a transaction for each batch. */
export class PostgresUsage implements UsageStore {
  /** All instances with this database are one collector. */
  readonly collector = 'postgres';
  readonly #pool: Pool;
  #migrated: Promise<void> | undefined;

  /**
   * Connects when it is first used, and then creates or migrates the tables: the service starts without the database.
   *
   * @param url      `postgres://user:password@host:port/database`
   * @param onError  called when an idle connection is lost
   */
  constructor(url: string, onError: (error: Error) => void) {
    this.#pool = new Pool({
      connectionString: url,
      max: 2,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    });
    this.#pool.on('error', onError);
  }

  async add(batch: string, rows: readonly UsageRow[]): Promise<void> {
    const sums = sumRows(rows);
    await this.#migrate();
    await this.#inTransaction(async (client) => {
      const known = await client.query('INSERT INTO weir_usage_batches (batch) VALUES ($1) ON CONFLICT DO NOTHING', [
        batch,
      ]);
      if (known.rowCount === 0) return;
      for (let at = 0; at < sums.length; at += SLICE) await insertAll(client, batch, sums.slice(at, at + SLICE));
    });
  }

  async refused(): Promise<string | undefined> {
    await this.#migrate();
    const { rows } = await this.#query<{ refused: string }>(
      `SELECT count(*) AS refused FROM (SELECT FROM weir_usage_quarantine LIMIT ${MAX_COUNTED}) AS refused`,
    );
    const refused = Number(rows[0]?.refused);
    if (refused === 0) return undefined;
    return `rows that the database refused are in the table weir_usage_quarantine: ${refused}${refused === MAX_COUNTED ? ' or more' : ''}`;
  }

  async report(
    { fromHour, toHour, by, per, count, part = 0, parts = 1, after, ...only }: UsageQuery,
    isWanted = () => true,
  ): Promise<UsageReport> {
    await this.#migrate();
    const columns = groupColumns[by];
    const ofPeriod = <T>(one: T): readonly T[] => (per === 'total' ? [] : [one]);
    const values: (string | number)[] = [fromHour, toHour];
    const filters = (['domain', 'rule', 'key'] as const).flatMap((name) => {
      const value = only[name];
      return value === undefined ? [] : [`AND ${name} = $${values.push(value)}`];
    });
    if (parts > 1) filters.push(`AND (hashtext(${by}) & 2147483647) % ${parts} = ${part}`);
    const groups = [...ofPeriod(periods[per]), ...columns].join(', ');
    const names = columns.map((name) => `${name} COLLATE "C"`);
    const order = [...ofPeriod(periods[per]), '-sum(hits)', ...names].join(', ');
    const given = after && [...ofPeriod(after.hour ?? 0), -after.hits, ...columns.map((name) => after[name] ?? '')];
    const later = given ? `HAVING (${order}) > (${given.map((one) => `$${values.push(one)}`).join(', ')})` : '';
    const of = `FROM weir_usage WHERE hour >= $1 AND hour < $2 ${filters.join(' ')} GROUP BY ${groups} ${later}`;
    const { rows, totals } = await this.#whileWanted(isWanted, async (client) => {
      const found = await client.query<ReportedRow>(
        `SELECT ${per === 'total' ? 'NULL' : periods[per]} AS hour, ${columns.join(', ')}, sum(hits) AS hits ${of}
         ORDER BY 1, hits DESC, ${names.join(', ')}
         LIMIT $${values.length + 1}`,
        [...values, count],
      );
      if (found.rows.length < count)
        return { rows: found.rows, totals: found.rows.map((row) => ({ ...row, rows: 1 })) };
      const all = await client.query<Pick<ReportedRow, 'currency' | 'hits'> & { readonly rows: string | number }>(
        `SELECT currency, sum(hits) AS hits, count(*) AS rows FROM (SELECT currency, sum(hits) AS hits ${of}) AS groups GROUP BY currency`,
        values,
      );
      return { rows: found.rows, totals: all.rows };
    });
    const spent: Record<string, number> = {};
    for (const { currency, hits } of totals) addSpent(spent, currency, Number(hits));
    const { '': hits = 0, ...ofBudgets } = spent;
    return {
      rows: rows.map(({ hour, domain, rule = '', key = '', currency, hits }) => ({
        hour: hour === null ? undefined : Number(hour),
        domain,
        rule,
        key,
        hits: saturated(Number(hits)),
        currency: currency === '' ? undefined : currency,
      })),
      more: totals.reduce((sum, one) => sum + Number(one.rows), 0) - rows.length,
      hits,
      spent: ofBudgets,
    };
  }

  async forget(domain: string, key: string): Promise<number> {
    await this.#migrate();
    return this.#inTransaction(async (client) => {
      let forgotten = 0;
      for (const table of ['weir_usage', 'weir_usage_quarantine']) {
        const text = `DELETE FROM ${table} WHERE domain = $1 AND (key = $2 OR starts_with(key, $3))`;
        forgotten += (await client.query(text, [domain, key, `${key},`])).rowCount ?? 0;
      }
      return forgotten;
    });
  }

  async newestHour(below: number): Promise<number | undefined> {
    await this.#migrate();
    const text = 'SELECT max(hour) AS hour FROM weir_usage WHERE hour < $1';
    const { rows } = await this.#query<{ hour: string | null }>(text, [below]);
    return rows[0]?.hour == null ? undefined : Number(rows[0].hour);
  }

  async nowMs(): Promise<number> {
    const { rows } = await this.#query<{ ms: string }>('SELECT extract(epoch FROM now()) * 1000 AS ms');
    return Number(rows[0]?.ms);
  }

  async tidy(keptFromHour: number): Promise<number> {
    await this.#migrate();
    const { rowCount } = await this.#query('DELETE FROM weir_usage WHERE hour < $1', [keptFromHour]);
    await this.#query(`DELETE FROM weir_usage_batches WHERE added_at < now() - interval '${BATCHES_KEPT}'`);
    return rowCount ?? 0;
  }

  close(): Promise<void> {
    return this.#pool.end();
  }

  #migrate(): Promise<void> {
    this.#migrated ??= this.#inTransaction(migrate).catch((error: unknown) => {
      this.#migrated = undefined;
      throw error;
    });
    return this.#migrated;
  }

  #query<R extends QueryResultRow>(text: string, values: readonly (string | number)[] = []): Promise<QueryResult<R>> {
    return this.#inTransaction((client) => client.query<R>(text, [...values]));
  }

  /** Runs a transaction, of which the database cancels what is running once nobody waits for the result. */
  #whileWanted<T>(isWanted: () => boolean, run: (client: PoolClient) => Promise<T>): Promise<T> {
    return this.#inTransaction(async (client) => {
      const { rows } = await client.query<Running>(
        'SELECT pg_backend_pid() AS pid, extract(epoch FROM now())::text AS since',
      );
      const [{ pid, since }] = rows as [Running]; // there is one
      const stop = every(WANTED_INTERVAL_MS, () => {
        if (!isWanted()) void this.#query(CANCEL, [pid, since]).catch(() => {}); // tried again at the next interval
      });
      return run(client).finally(stop);
    });
  }

  /** The timeout is set in the transaction, since a pooler such as PgBouncer refuses it as an option of a connection. */
  async #inTransaction<T>(run: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    let failure: Error | undefined;
    try {
      await client.query(`BEGIN; SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
      const result = await run(client);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      await client.query('ROLLBACK').catch(() => {}); // the connection may be lost, which rolls back as well
      throw failure;
    } finally {
      client.release(failure);
    }
  }
}

/** A transaction, which the process of the database and its beginning identify, also behind a pooler. */
interface Running {
  readonly pid: number;
  readonly since: string;
}

const CANCEL =
  'SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND extract(epoch FROM xact_start) = $2::numeric';

/** The sum of two saturated sums is within 64 bits. */
const MAX_ADDED = BigInt(MAX_SUM);

interface ReportedRow {
  readonly hour: string | null;
  readonly domain: string;
  readonly rule?: string;
  readonly key?: string;
  /** Empty for hits. */
  readonly currency: string;
  readonly hits: string;
}

const groupColumns: Readonly<Record<UsageGroup, readonly ('domain' | 'rule' | 'currency' | 'key')[]>> = {
  domain: ['domain', 'currency'],
  rule: ['domain', 'rule', 'currency'],
  key: ['domain', 'rule', 'currency', 'key'],
};

const periods: Readonly<Record<UsagePeriod, string>> = { total: '', day: '(hour / 24 * 24)', hour: 'hour' };

async function migrate(client: PoolClient): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  await client.query('CREATE TABLE IF NOT EXISTS weir_usage_schema (version integer NOT NULL)');
  const { rows } = await client.query<{ version: number }>('SELECT version FROM weir_usage_schema');
  const version = rows[0]?.version ?? 0;
  for (const step of MIGRATIONS.slice(version)) await client.query(step);
  if (rows.length === 0) await client.query('INSERT INTO weir_usage_schema VALUES ($1)', [MIGRATIONS.length]);
  else await client.query('UPDATE weir_usage_schema SET version = greatest(version, $1)', [MIGRATIONS.length]);
}

interface IdentifiedRow extends UsageRow {
  /** Identifies its domain, rule, key and currency; an index of keys of any length would have a maximum. */
  readonly id: Buffer;
}

/** One row for each hour and key, in an order in which concurrent transactions do not wait for each other's. */
function sumRows(rows: readonly UsageRow[]): readonly IdentifiedRow[] {
  const sums = new UsageSums(ALL_USAGE);
  for (const row of rows) sums.add(row);
  return (sums.report().rows as readonly UsageRow[]) // sums for each hour have one
    .map((row) => {
      const { domain, rule, key, currency } = row;
      const names = [domain, rule, key, ...(currency === undefined ? [] : [currency])];
      return { ...row, id: createHash('sha256').update(JSON.stringify(names)).digest() };
    })
    .sort((one, other) => one.hour - other.hour || one.id.compare(other.id));
}

/** Sets aside the rows that the database refuses, one by one, so that the others are kept. */
async function insertAll(client: PoolClient, batch: string, rows: readonly IdentifiedRow[]): Promise<void> {
  await client.query('SAVEPOINT rows');
  try {
    await insert(client, rows);
  } catch (error) {
    if (!refusesData(error)) throw error;
    await client.query('ROLLBACK TO SAVEPOINT rows');
    if (rows.length > 1) {
      const middle = rows.length >> 1;
      await insertAll(client, batch, rows.slice(0, middle));
      return insertAll(client, batch, rows.slice(middle));
    }
    const { id: _, ...row } = rows[0] as IdentifiedRow; // the only one
    await client.query(
      'INSERT INTO weir_usage_quarantine (batch, reason, row, domain, key) VALUES ($1, $2, $3, $4, $5)',
      [batch, error.message, JSON.stringify(row), withoutNul(row.domain), withoutNul(row.key)],
    );
  }
}

/** Whether an error is about the values: classes 22 (data), 23 (constraints) and 54 (limits of the database). */
const refusesData = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && /^(22|23|54)/.test(String(error.code));

async function insert(client: PoolClient, rows: readonly IdentifiedRow[]): Promise<void> {
  await client.query(
    `INSERT INTO weir_usage (hour, domain, rule, key, hits, id, currency)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::text[])
     ON CONFLICT (hour, id) DO UPDATE SET hits = greatest(least(weir_usage.hits + excluded.hits, ${MAX_ADDED}), -${MAX_ADDED})`,
    [
      rows.map(({ hour }) => hour),
      rows.map(({ domain }) => withoutNul(domain)),
      rows.map(({ rule }) => withoutNul(rule)),
      rows.map(({ key }) => withoutNul(key)),
      rows.map(({ hits }) => BigInt(hits)),
      rows.map(({ id }) => id),
      rows.map(({ currency = '' }) => currency),
    ],
  );
}

/** PostgreSQL has no texts with the character 0. */
const withoutNul = (text: string): string => text.replaceAll('\0', '\uFFFD');
