import type { Clock } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import { shareRuns } from '../../base/later.ts';
import { rfc3339 } from '../../base/times.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import type { UsageEntry, UsageSource } from '../../engine/backends/usage.ts';
import { matchName, readNames } from '../../engine/decide/counter-key.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';
import type { UsageRow, UsageStore } from './usage-store.ts';

interface CollectorOptions {
  /** The usage of all deciders. */
  readonly sources: UsageSource;
  readonly store: UsageStore;
  /** How long a batch is set aside before it is kept: a store that fails over must not bring it back uncollected. */
  readonly settleMs: number;
  /** How long usage is kept. */
  readonly keepMs: number;
  readonly rules: () => RuleTree | undefined;
  readonly hash: Hash | undefined;
  readonly clock: Clock;
  /** Called with what another program has written, which is left out. */
  readonly onForeign: (name: string) => void;
  /** Called with what was deleted. */
  readonly onDeleted: (what: string) => void;
  /** Whether old usage is deleted, and whether the store has taken every row. */
  readonly retention: Pick<WorkState, 'works' | 'failed'>;
  readonly rows: Pick<WorkState, 'works' | 'failed'>;
}

/**
 * Creates the function that moves usage from the counters' store to where it is kept: each batch once, wherever a process
 * ends. It collects what has been set aside for long enough, and sets aside the rest. It rejects if some of it could not
 * be collected; the next round tries that again.
 */
export const createCollector = (options: CollectorOptions): (() => Promise<void>) => shareRuns(() => collect(options));

async function collect(options: CollectorOptions): Promise<void> {
  const { sources, store, settleMs } = options;
  const { batches, problems } = await sources.setAside(store.collector);
  const failures = new Set<string>();
  for (const { id, ageMs } of batches)
    if (ageMs >= settleMs) await collectBatch(id, options).catch((error: Error) => failures.add(error.message));
  await tidy(options);
  await countRefused(options);
  for (const problem of problems) failures.add(problem);
  if (failures.size > 0) throw new Error([...failures].join('; '));
}

async function tidy({ store, keepMs, clock, onDeleted, retention }: CollectorOptions): Promise<void> {
  const nowMs = Math.min(clock(), (await store.nowMs()) ?? Number.POSITIVE_INFINITY);
  const nowHour = Math.floor(nowMs / unitMs.HOUR);
  const keptFromHour = Math.floor((nowMs - keepMs) / unitMs.HOUR);
  const mayDelete = await isPlausible(store, nowHour, keptFromHour);
  if (mayDelete) retention.works();
  else retention.failed(`the clock is ${rfc3339(nowMs)}, but there is no usage from the week before the last one`);
  const deleted = await store.tidy(mayDelete ? keptFromHour : 0, nowHour);
  if (deleted > 0)
    onDeleted(`deleted usage from before ${rfc3339(keptFromHour * unitMs.HOUR)}, rows or files: ${deleted}`);
}

/** Whether what is old by a clock may be deleted. Usage of the last week may have been counted by the same clock. */
async function isPlausible(store: UsageStore, nowHour: number, keptFromHour: number): Promise<boolean> {
  if ((await store.newestHour(keptFromHour)) === undefined) return true; // nothing is deleted
  const newest = await store.newestHour(nowHour - WEEK_HOURS);
  return newest === undefined || newest >= nowHour - 2 * WEEK_HOURS;
}

async function countRefused({ store, rows }: CollectorOptions): Promise<void> {
  const refused = await store.refused();
  if (refused === undefined) rows.works();
  else rows.failed(refused);
}

async function collectBatch(id: string, { sources, store, onForeign, rules, hash }: CollectorOptions): Promise<void> {
  const entries = new Map<string, UsageEntry>(); // one may be on several pages
  const added = new Map<string, UsageEntry>();
  let after: string | undefined;
  do {
    const page = await sources.read(id, after);
    if (!page) return; // no decider has it, or has replied: the next round begins again
    for (const name of page.foreign ?? []) onForeign(name);
    for (const entry of page.entries) entries.set(nameEntry(entry), entry);
    for (const entry of page.added ?? []) addTo(added, entry);
    after = page.next;
  } while (after !== undefined);
  for (const entry of entries.values()) addTo(added, entry);
  const describe = ({ hour, key, hits }: UsageEntry) => ({ hour, ...describeCounter(key, rules(), hash), hits });
  await store.add(id, Array.from(added.values(), describe));
  await sources.drop(id);
}

const WEEK_HOURS = unitMs.WEEK / unitMs.HOUR;

const nameEntry = ({ hour, key }: UsageEntry): string => `${hour}|${key}`;

function addTo(sums: Map<string, UsageEntry>, entry: UsageEntry): void {
  const name = nameEntry(entry);
  const known = sums.get(name);
  sums.set(name, known ? { ...entry, hits: known.hits + entry.hits } : entry);
}

/**
 * The domain, rule and entries in the name of a counter. A name that is too long for a key contains only its digest,
 * which takes the place of the entries.
 *
 * @param hash  hashes values that callers sent; undefined to keep them unchanged
 */
function describeCounter(
  key: string,
  rules: RuleTree | undefined,
  hash: Hash | undefined,
): Omit<UsageRow, 'hour' | 'hits'> {
  for (const name of readNames(key)) {
    const shown = hash ? name.entries.map((one) => ({ ...one, value: hash(one.value) })) : name.entries;
    const rule = rules ? findRule(rules, name) : '';
    return { domain: name.domain, rule, key: descriptorText(shown), currency: counterCurrency(name.counter) };
  }
  const bar = key.lastIndexOf('|');
  return { domain: '', rule: '', key: key.slice(bar + 1), currency: counterCurrency(key.slice(0, Math.max(bar, 0))) };
}

function findRule(rules: RuleTree, name: Parameters<typeof matchName>[1]): string {
  for (const { rule } of matchName(rules, name)) return rule.path;
  return '';
}

/** The currency in the name of a counter, if it is of a budget: `fixed_window.2|USD|86400000`. */
const counterCurrency = (counter: string): string | undefined => /\|([A-Z]{3})\|\d+[^|]*$/.exec(counter)?.[1];
