import { type Command, Option } from 'commander';
import { parseTime } from '../../base/times.ts';
import { decimal, showCount, showMoney } from '../../engine/algorithms/money.ts';
import type { reportUsage } from '../../operate/admin/usage-operations.ts';
import type { UsageAnswer } from '../../operate/answers/usage.ts';
import { command, count, type ServiceFlags, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, guarded, show } from './client.ts';
import type { Paint } from './paint.ts';

interface UsageFlags extends ServiceFlags {
  readonly csv: boolean;
  readonly dir?: string;
  readonly by: UsageAnswer['by'];
  readonly per: UsageAnswer['per'];
  readonly from?: string;
  readonly to?: string;
  readonly domain?: string;
  readonly rule?: string;
  readonly key?: string;
  readonly count?: number;
}

/** Rows that are listed for people, and the most that a service answers. */
const SHOWN_ROWS = 50;
const MAX_ROWS = 1_000_000;
/** Many rows take seconds to sum up and send. */
const TIMEOUT_MS = 120_000;

/** Adds the command that reports admitted hits by domain, rule and key. */
export function addUsageCommand(program: Command, surroundings: Surroundings): void {
  const { clock, print, fail } = surroundings;
  command(program, 'usage', 'report what each key has used')
    .description(
      'Report admitted hits by domain, rule and key (USAGE_DIR, USAGE_URL); default: since the first of this month.',
    )
    .addOption(new Option('--by <what>', 'what rows are sums of').choices(['domain', 'rule', 'key']).default('key'))
    .addOption(new Option('--per <period>', 'one row each').choices(['total', 'day', 'hour']).default('total'))
    .option('--from <time>', 'from this time, such as 2026-11-01 or 2026-11-01T00:00+01:00')
    .option('--to <time>', 'before this time')
    .option('--domain <name>', 'only of this domain')
    .option('--rule <path>', 'only of this rule')
    .option('--key <key>', 'only of this key: user=alice')
    .option('--count <n>', 'how many rows; default: 50, and with --csv or --json all', count)
    .option('--csv', 'print CSV', false)
    .option('--dir <path>', 'read the files of USAGE_DIR, without a service: faster for many keys')
    .action(
      guarded(fail, async ({ from, to, by, per, domain, rule, key, ...flags }: UsageFlags) => {
        if (flags.csv && flags.json)
          throw new CommandFailed('--csv and --json are mutually exclusive: remove one of them');
        const allRows = flags.dir === undefined ? MAX_ROWS : Number.POSITIVE_INFINITY;
        const rows = flags.count ?? (flags.csv || flags.json ? allRows : SHOWN_ROWS);
        const query = { from: asTime(from), to: asTime(to), by, per, domain, rule, key, count: rows };
        const usage =
          flags.dir === undefined
            ? await callApi(flags, { operation: 'GET /api/v1/usage', query, timeoutMs: TIMEOUT_MS })
            : await readFiles(flags.dir, query, clock);
        if (flags.count === undefined && rows !== SHOWN_ROWS && usage.more > 0)
          throw new CommandFailed(
            `the service answers at most ${MAX_ROWS} rows, and there are ${usage.more} more: use --dir, --from and --to, --domain or --rule`,
          );
        if (flags.csv) print(renderCsv(usage));
        else show(flags, usage, renderUsage, surroundings);
      }),
    );
}

/** A report from files, in this process. */
async function readFiles(
  directory: string,
  query: Parameters<typeof reportUsage>[1],
  clock: Surroundings['clock'],
): Promise<UsageAnswer> {
  const { FileUsage } = await import('../../operate/usage/files.ts');
  const { reportUsage: report } = await import('../../operate/admin/usage-operations.ts');
  return report({ store: FileUsage.reading(directory), clock }, query).catch((error: Error) => {
    throw new CommandFailed(error.message);
  });
}

/** A date is its midnight in UTC. */
function asTime(written: string | undefined): string | undefined {
  if (written === undefined) return undefined;
  const whole = /^\d{4}-\d\d-\d\d$/.test(written) ? `${written}T00:00Z` : written;
  if (parseTime(whole) !== undefined) return whole;
  throw new CommandFailed(`expected a time such as 2026-11-01 or 2026-11-01T00:00Z, got '${written}'`);
}

function renderUsage({ from, to, hits, spent = {}, more, rows }: UsageAnswer, paint: Paint): string {
  const amounts = Object.entries(spent).map(([currency, amount]) => showMoney(amount, currency));
  const total = [...(hits > 0 || amounts.length === 0 ? [`${hits} hits`] : []), ...amounts].join(', ');
  const width = Math.max(0, ...rows.map((row) => showCount(row, row.hits).length));
  return [
    `${paint.strong(total)} from ${from} to ${to}`,
    ...rows.map(({ at, domain, rule, key, ...own }) =>
      [
        ...(at === undefined ? [] : [at]),
        showCount(own, own.hits).padStart(width),
        paint.strong(key === undefined ? (rule ?? domain) : key === '' ? '(others)' : key),
        ...(key === undefined ? [] : [paint.dim(rule === '' ? `${domain}, no applicable rule` : (rule ?? domain))]),
      ].join('  '),
    ),
    ...(more > 0 ? [`and ${more} more: --count`] : []),
  ].join('\n');
}

/** CSV as in RFC 4180, with a head. If budgets have spent anything, it has columns for that. */
function renderCsv({ by, per, rows }: UsageAnswer): string {
  const hasBudgets = rows.some(({ currency }) => currency !== undefined);
  const columns = csvColumns.filter(
    (name) =>
      (name !== 'at' || per !== 'total') &&
      (name !== 'rule' || by !== 'domain') &&
      (name !== 'key' || by === 'key') &&
      ((name !== 'cost' && name !== 'currency') || hasBudgets),
  );
  const lines = rows.map((row) => columns.map((name) => csvCell(columnText(row, name))).join(','));
  return [columns.join(','), ...lines].join('\n');
}

function columnText(row: UsageAnswer['rows'][number], name: (typeof csvColumns)[number]): string {
  if (name === 'hits') return row.currency === undefined ? String(row.hits) : '';
  if (name === 'cost') return row.currency === undefined ? '' : decimal(row.hits);
  return row[name] ?? '';
}

const csvColumns = ['at', 'domain', 'rule', 'key', 'hits', 'cost', 'currency'] as const;

/** Text that a spreadsheet would take for a formula is preceded by an apostrophe: callers choose keys. */
function csvCell(cell: string): string {
  if (!/^[=+@\t\r-]|[",\n\r]/.test(cell)) return cell; // most cells
  const plain = /^[=+@\t\r]|^-(?!\d+(\.\d+)?$)/.test(cell) ? `'${cell}` : cell;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
