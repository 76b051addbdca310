/** The hits that a key has used under a rule in an hour, less those given back. */
export interface UsageRow {
  /** Hours since the epoch. */
  readonly hour: number;
  readonly domain: string;
  /** The path of the rule; empty if no rule had the counter when the usage was collected. */
  readonly rule: string;
  /** The entries of the counter: `user=alice`. Empty for the sum of counters that were too many. */
  readonly key: string;
  /** Hits; of a budget billionths of its currency. */
  readonly hits: number;
  readonly currency?: string | undefined;
}

/** The largest sum that is kept and reported, in either direction; each store has room for the sum of two. */
export const MAX_SUM = 2 ** 62;

export const saturated = (sum: number): number => Math.max(Math.min(sum, MAX_SUM), -MAX_SUM);

/** Adds up sums of each currency. */
export function addSpent(spent: Record<string, number>, currency: string, amount: number): void {
  spent[currency] = saturated((spent[currency] ?? 0) + amount);
}

/** What rows of a report are sums of. */
export const usageGroups = ['domain', 'rule', 'key'] as const;
export type UsageGroup = (typeof usageGroups)[number];
export const usagePeriods = ['total', 'day', 'hour'] as const;
export type UsagePeriod = (typeof usagePeriods)[number];

/** Selects and sums up usage. */
export interface UsageQuery {
  /** Hours since the epoch; `toHour` is excluded. */
  readonly fromHour: number;
  readonly toHour: number;
  readonly by: UsageGroup;
  /** Days are those of UTC. */
  readonly per: UsagePeriod;
  readonly domain?: string | undefined;
  readonly rule?: string | undefined;
  readonly key?: string | undefined;
  /** Maximum number of rows. */
  readonly count: number;
  /** Only the rows of one of several parts of about equal size, from 0. Default: all rows. */
  readonly part?: number | undefined;
  readonly parts?: number | undefined;
  /** Only rows after this one. */
  readonly after?: UsageSum | undefined;
}

/** A row of a report. */
export interface UsageSum {
  readonly domain: string;
  /** Empty unless the report is by rule or key. */
  readonly rule: string;
  /** Empty unless the report is by key. */
  readonly key: string;
  /** First hour of the period; undefined for the total. */
  readonly hour: number | undefined;
  /** Sums of a budget above 2^53 are exact to the cent. */
  readonly hits: number;
  readonly currency?: string | undefined;
}

export interface UsageReport {
  /** By period, then the most hits first. */
  readonly rows: readonly UsageSum[];
  /** Rows beyond the maximum. */
  readonly more: number;
  /** Hits of all rows without a currency. */
  readonly hits: number;
  /** What budgets have spent, in billionths, by currency. */
  readonly spent: Readonly<Record<string, number>>;
}

/** Keeps usage. Methods reject if it cannot be read or written. */
export interface UsageStore {
  /** Identifies this store to the deciders, also after a restart. */
  readonly collector: string;
  /** Adds the rows of a batch, once: a batch with a known id has no effect. */
  add(batch: string, rows: readonly UsageRow[]): Promise<void>;
  /** How many rows could not be stored, and where they are until an operator removes them; undefined: none. */
  refused(): Promise<string | undefined>;
  /** @param isWanted  asked meanwhile: if not, the report need not be finished */
  report(query: UsageQuery, isWanted?: () => boolean): Promise<UsageReport>;
  /** Deletes the rows of a key, and of longer ones that begin with its entries. @returns their number */
  forget(domain: string, key: string): Promise<number>;
  /** The last hour with usage below an hour; undefined if there is none. */
  newestHour(below: number): Promise<number | undefined>;
  /** The clock of the store; undefined: it has none of its own. */
  nowMs(): Promise<number | undefined>;
  /** Compacts what is kept, and deletes usage from before this hour. @returns the number of deleted rows or files */
  tidy(keptFromHour: number, nowHour: number): Promise<number>;
  close(): Promise<void>;
}

/** Whether the entries of a key are those of another one, or begin with them. */
export const isPartOf = (key: string, whole: string): boolean => whole === key || whole.startsWith(`${key},`);

const HOURS_A_DAY = 24;

/** The first hour of a row's period. */
const periodOf = (hour: number, per: UsagePeriod): number | undefined =>
  per === 'total' ? undefined : per === 'day' ? Math.floor(hour / HOURS_A_DAY) * HOURS_A_DAY : hour;

type Sum = { -readonly [K in keyof UsageSum]: UsageSum[K] };

/** The hashes of keys are integers from 0 to below this. */
export const HASHES = 2 ** 32;
/** Hashes, of which the rows of one key have the same. */
export interface HashRange {
  readonly from: number;
  /** Excluded. */
  readonly to: number;
}
export const ALL_HASHES: HashRange = { from: 0, to: HASHES };
/** Parts of all hashes that are read alone; a part is not divided further, however many sums it has. */
export const MAX_SLICES = 64;
const MIN_RANGE = HASHES / MAX_SLICES;

/** Sums up rows: all of them, or those whose hashes are in a range that shrinks so that they fit into memory. */
export class UsageSums {
  readonly #query: UsageQuery;
  readonly #max: number;
  readonly #from: number;
  #to: number;
  readonly #sums = new Map<string, Sum>();

  /** @param max  maximum number of sums */
  constructor(query: UsageQuery, max = Number.POSITIVE_INFINITY, { from, to } = ALL_HASHES) {
    this.#query = query;
    this.#max = max;
    this.#from = from;
    this.#to = to;
  }

  /** The end of the range: rows with greater hashes are missing. */
  get to(): number {
    return this.#to;
  }

  /** Adds a row, if the query selects it. */
  add(row: UsageRow): void {
    const { by, per, after: _, ...only } = this.#query;
    const { domain, hits, currency } = row;
    if (row.hour < only.fromHour || row.hour >= only.toHour) return;
    if (only.domain !== undefined && domain !== only.domain) return;
    if (only.rule !== undefined && row.rule !== only.rule) return;
    if (only.key !== undefined && row.key !== only.key) return;
    const rule = by === 'domain' ? '' : row.rule;
    const key = by === 'key' ? row.key : '';
    const sum = { domain, rule, key, hour: periodOf(row.hour, per), hits, currency };
    if (this.#has(sum)) this.#addSum(sum);
  }

  report(): UsageReport {
    const { count, after } = this.#query;
    const all = [...this.#sums.values()];
    const rows = (after ? all.filter((one) => compare(one, after) > 0) : all).sort(compare);
    let total = 0;
    const spent: Record<string, number> = {};
    for (const { hits, currency } of rows)
      if (currency === undefined) total = saturated(total + hits);
      else addSpent(spent, currency, hits);
    return { rows: rows.slice(0, count), more: Math.max(rows.length - count, 0), hits: total, spent };
  }

  #addSum(row: Sum): void {
    const { domain, rule, key, hour, currency } = row;
    const name = `${hour} ${currency} ${domain.length} ${rule.length} ${domain}${rule}${key}`;
    const known = this.#sums.get(name);
    if (known) known.hits = saturated(known.hits + row.hits);
    else this.#sums.set(name, { ...row, hits: saturated(row.hits) });
    while (this.#sums.size > this.#max && this.#to - this.#from > MIN_RANGE) this.#halve();
  }

  #has(sum: Sum): boolean {
    if (this.#to - this.#from === HASHES) return true;
    const hash = hashSum(this.#query, sum);
    return hash >= this.#from && hash < this.#to;
  }

  #halve(): void {
    this.#to = this.#from + Math.ceil((this.#to - this.#from) / 2);
    for (const [name, sum] of this.#sums) if (hashSum(this.#query, sum) >= this.#to) this.#sums.delete(name);
  }
}

/** A sum of several keys is spread by its other names. */
const hashSum = ({ by }: UsageQuery, { hour, domain, rule, key }: Sum): number =>
  hashOf(by === 'key' ? key : `${hour} ${domain} ${rule}`);

/** FNV-1a. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash ^= hash >>> 15; // its upper bits decide
  return Math.imul(hash, 0x2c1b3c6d) >>> 0;
}

/**
 * Sums up rows in passes, each of which has about `max` sums in memory, in the order of their hashes.
 *
 * @param read   reads at least the rows whose keys have hashes in the range
 * @param width  the range of the first pass
 */
export async function* sumInPasses(
  query: UsageQuery,
  read: (range: HashRange) => AsyncIterable<readonly UsageRow[]>,
  max: number,
  width = HASHES,
): AsyncGenerator<UsageReport> {
  const { by, key, part = 0, parts = 1 } = query;
  const end = Math.floor((HASHES / parts) * (part + 1));
  const whole = key === undefined ? ALL_HASHES : { from: hashOf(key), to: hashOf(key) + 1 };
  let next = by === 'key' && key === undefined ? width : HASHES;
  for (let from = Math.floor((HASHES / parts) * part); from < end; ) {
    const range = { from, to: Math.min(from + next, end) };
    const sums = new UsageSums(query, max, range);
    for await (const rows of read(by === 'key' && key === undefined ? range : whole))
      for (const row of rows) sums.add(row);
    yield sums.report();
    next = sums.to - from;
    from = sums.to;
  }
}

/** The report of all passes. */
export async function reportPasses(query: UsageQuery, passes: AsyncIterable<UsageReport>): Promise<UsageReport> {
  let all = new UsageSums(query).report();
  for await (const one of passes) {
    const rows = [...all.rows, ...one.rows].sort(compare);
    const spent = { ...all.spent };
    for (const [currency, amount] of Object.entries(one.spent)) addSpent(spent, currency, amount);
    all = {
      rows: rows.slice(0, query.count),
      more: all.more + one.more + Math.max(rows.length - query.count, 0),
      hits: saturated(all.hits + one.hits),
      spent,
    };
  }
  return all;
}

/** By period, then the most hits first, then by domain, rule, currency and key. */
function compare(one: UsageSum, other: UsageSum): number {
  if ((one.hour ?? 0) !== (other.hour ?? 0)) return (one.hour ?? 0) - (other.hour ?? 0);
  if (one.hits !== other.hits) return other.hits - one.hits;
  for (const name of ['domain', 'rule', 'currency', 'key'] as const)
    if (one[name] !== other[name]) return (one[name] ?? '') < (other[name] ?? '') ? -1 : 1;
  return 0;
}

/** Selects everything. */
export const ALL_USAGE: UsageQuery = {
  fromHour: Number.NEGATIVE_INFINITY,
  toHour: Number.POSITIVE_INFINITY,
  by: 'key',
  per: 'hour',
  count: Number.POSITIVE_INFINITY,
};
