import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FileUsage } from '../../src/parts/usage/files.ts';
import { PostgresUsage } from '../../src/parts/usage/postgres.ts';
import type { UsageRow, UsageStore } from '../../src/parts/usage/usage-store.ts';
import { startPostgres } from '../../test/helpers/postgres.ts';
import { randomOf } from '../../test/helpers/random.ts';
import { MAIN, startWeir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- usage-report [options]

Fills a month of usage, and measures \`weir usage --csv\` for it from start to end: the command, the service, and the
place where usage is kept.

  --keys <n>     the keys of the month, each in one or two of its hours; default: 1000000
  --rounds <n>   how often to report; default: 3
  --postgres     in PostgreSQL instead of files
  --service      ask a service instead of reading the files, as with PostgreSQL
`;

const RULES =
  'domain: shop\ndescriptors:\n  - { key: user, rate_limit: { unit: month, requests_per_unit: 1000000 } }\n';
/** October 2026. */
const [FROM, TO, FIRST_HOUR, HOURS] = ['2026-10-01', '2026-11-01', Date.UTC(2026, 9) / 3_600_000, 31 * 24];

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      keys: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '3' },
      postgres: { type: 'boolean', default: false },
      service: { type: 'boolean', default: false },
    },
  });
  const keys = parseCount('--keys', values.keys);
  const folder = mkdtempSync(join(tmpdir(), 'usage-'));
  const postgres = values.postgres ? await startPostgres() : undefined;
  const url = await postgres?.createDatabase();
  try {
    const store = url === undefined ? await FileUsage.open(join(folder, 'usage')) : new PostgresUsage(url, () => {});
    const filled = performance.now();
    const rows = await fill(store, keys);
    console.log(`${rows} rows of ${keys} keys, written in ${seconds(performance.now() - filled)} s`);
    await store.close();
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    const at = url === undefined ? { USAGE_DIR: join(folder, 'usage') } : { USAGE_URL: url };
    const isAsked = values.service || values.postgres;
    const weir = isAsked
      ? await startWeir({ ...at, USE_STATSD: 'false' }, { args: ['--rules', join(folder, 'rules.yaml')] })
      : undefined;
    const source = weir ? ['--target', `127.0.0.1:${weir.debugPort}`] : ['--dir', join(folder, 'usage')];
    console.log(tableHead(['report', 'lines', 's from start to end', 's of processor time of the command'], 1));
    for (let round = 1; round <= parseCount('--rounds', values.rounds); round++) {
      const startMs = performance.now();
      const { lines, cpuSeconds } = await report(source);
      console.log(tableRow([round, lines, seconds(performance.now() - startMs), cpuSeconds.toFixed(1)]));
      if (lines !== keys + 1) throw new Error(`expected a line for each of ${keys} keys and a head, got ${lines}`);
    }
    await weir?.stop();
  } finally {
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

/** @returns the number of rows */
async function fill(store: UsageStore, keys: number): Promise<number> {
  const random = randomOf(1);
  const byHour = Array.from({ length: HOURS }, (): UsageRow[] => []);
  for (let at = 0; at < keys; at++) {
    const key = `user=${Math.floor(random() * 1e15).toString(36)}-${at}`;
    for (let times = random() < 0.5 ? 2 : 1; times > 0; times--) {
      const hour = Math.floor(random() * HOURS);
      byHour[hour]?.push({ hour: FIRST_HOUR + hour, domain: 'shop', rule: 'shop.user', key, hits: 1 + (at % 1_000) });
    }
  }
  for (const [at, rows] of byHour.entries()) await store.add(`hour-${at}`, rows);
  return byHour.reduce((sum, rows) => sum + rows.length, 0);
}

/** Prints a report to nowhere. @param source  the arguments that say where usage is */
async function report(source: readonly string[]): Promise<{ readonly lines: number; readonly cpuSeconds: number }> {
  const measured = `process.on('exit', () => process.stderr.write(String(process.cpuUsage().user + process.cpuUsage().system)))`;
  const preload = `data:text/javascript,${encodeURIComponent(measured)}`;
  const args = ['--import', preload, MAIN, 'usage', '--csv', '--from', FROM, '--to', TO, ...source];
  const command = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let [lines, told] = [0, ''];
  command.stdout.on('data', (chunk: Buffer) => {
    for (const octet of chunk) if (octet === 0x0a) lines++;
  });
  command.stderr.on('data', (chunk: Buffer) => {
    told += chunk.toString();
  });
  await once(command, 'close');
  if (!/^\d+$/.test(told)) throw new Error(told);
  return { lines, cpuSeconds: Number(told) / 1e6 };
}
