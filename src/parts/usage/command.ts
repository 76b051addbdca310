import { type Command, Option } from 'commander';
import { counted } from '../../base/texts.ts';
import { parseTime } from '../../base/times.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { decimal, showCount, showMoney } from '../../engine/algorithms/money.ts';
import { command, count, type ServiceFlags } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded, show, type Target } from '../lab/commands/client.ts';
import type { Paint } from '../lab/commands/paint.ts';
import type { UsageAnswer } from './answers.ts';
import { addForgetCommand } from './forget-command.ts';
import type { reportUsage } from './operations.ts';

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

/** Rows that are listed for people. */
const SHOWN_ROWS = 50;
/** The most that a service sends. */
const SENT_ROWS = 100_000;
/** Many rows take seconds to sum up and send. */
const TIMEOUT_MS = 120_000;

/** Adds the commands that report usage, and delete that of a key. */
export function addUsageCommands(program: Command, surroundings: Surroundings): void {
  addUsageCommand(program, surroundings);
  addForgetCommand(program, surroundings);
}

/** Adds the command that reports admitted hits by domain, rule and key. */
function addUsageCommand(program: Command, surroundings: Surroundings): void {
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
        const isForProgram = flags.csv || flags.json;
        const all = flags.dir === undefined ? SENT_ROWS : Number.POSITIVE_INFINITY;
        const rows = flags.count ?? (isForProgram ? all : SHOWN_ROWS);
        const query = { from: asTime(from), to: asTime(to), by, per, domain, rule, key, count: rows };
        const usage =
          flags.dir === undefined
            ? await fetchUsage(flags, query, isForProgram && flags.count === undefined)
            : await readFiles(flags.dir, query, clock);
        if (flags.csv) print(renderCsv(usage));
        else show(flags, usage, renderUsage, surroundings);
      }),
    );
}

/** A report of a service; of all rows in parts, if they are too many for one answer. */
async function fetchUsage(
  flags: Target,
  query: Readonly<Record<string, string | number | undefined>>,
  isOfAll: boolean,
): Promise<UsageAnswer> {
  const call = (part: object): Promise<UsageAnswer> =>
    callApi(flags, { operation: 'GET /api/v1/usage', query: { ...query, ...part }, timeoutMs: TIMEOUT_MS });
  const first = await call({});
  if (!isOfAll || first.more === 0) return first;
  const parts = Math.ceil((2 * (first.rows.length + first.more)) / SENT_ROWS); // they differ in size
  const rows: UsageAnswer['rows'][number][] = [];
  for (let part = 0; part < parts; part++) {
    const one = await call({ part, parts });
    if (one.more > 0)
      throw new CommandFailed(`the service left out ${counted(one.more, 'row')} of part ${part} of ${parts}`);
    rows.push(...one.rows);
  }
  return { ...first, more: 0, rows: rows.sort(compareRows) };
}

/** By time, then the most hits first, then by their names. */
function compareRows(one: UsageAnswer['rows'][number], other: UsageAnswer['rows'][number]): number {
  if (one.at !== other.at) return (one.at ?? '') < (other.at ?? '') ? -1 : 1;
  if (one.hits !== other.hits) return other.hits - one.hits;
  for (const name of ['domain', 'rule', 'currency', 'key'] as const)
    if (one[name] !== other[name]) return (one[name] ?? '') < (other[name] ?? '') ? -1 : 1;
  return 0;
}

/** A report from files, in this process. */
async function readFiles(
  directory: string,
  query: Parameters<typeof reportUsage>[1],
  clock: Surroundings['clock'],
): Promise<UsageAnswer> {
  const { FileUsage } = await import('./files.ts');
  const { reportUsage: report } = await import('./operations.ts');
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
  const total = [...(hits > 0 || amounts.length === 0 ? [counted(hits, 'hit')] : []), ...amounts].join(', ');
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
