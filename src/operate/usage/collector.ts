import { type Clock, monotonicMs } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import { shareRuns } from '../../base/later.ts';
import { rfc3339 } from '../../base/times.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import { counterCurrency } from '../../engine/algorithms/money.ts';
import type { UsageEntry, UsageSource } from '../../engine/backends/usage.ts';
import { matchName, readNames } from '../../engine/decide/counter-key.ts';
import { descriptorText } from '../../engine/rules/match/descriptor-text.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
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
  /** Called with what is left out because it cannot be kept, and the reason. */
  readonly onLeftOut: (what: string) => void;
  /** Called with what was deleted, and once with the reason why nothing is. */
  readonly onTidy: (what: string) => void;
}

/** Moves usage from the counters' store to where it is kept: each batch once, wherever a process ends. */
export class UsageCollector {
  readonly #options: CollectorOptions;

  /** The end of the newest hour with usage when this process began to collect; infinite without usage. */
  #knownUntilMs: number | undefined;
  readonly #startedAtMs = monotonicMs();
  #isRefusing = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  /** Collects what has been set aside for long enough, and sets aside the rest. */
  readonly collect = shareRuns(() => this.#collect());

  async #collect(): Promise<void> {
    const { sources, store, settleMs } = this.#options;
    this.#knownUntilMs ??= await readNewest(store);
    for (const { id, ageMs } of await sources.setAside(store.collector)) if (ageMs >= settleMs) await this.#take(id);
    await this.#tidy();
  }

  async #tidy(): Promise<void> {
    const { store, keepMs, clock, onTidy } = this.#options;
    const nowMs = Math.min(clock(), (await store.nowMs()) ?? Number.POSITIVE_INFINITY);
    const plausibleMs = (this.#knownUntilMs ?? 0) + monotonicMs() - this.#startedAtMs + MAX_JUMP_MS;
    const isPlausible = nowMs <= plausibleMs;
    if (!isPlausible && !this.#isRefusing)
      onTidy(`no usage is deleted: the clock is ${rfc3339(nowMs)}, more than a week after the newest usage`);
    this.#isRefusing = !isPlausible;
    const keptFromHour = isPlausible ? Math.floor((nowMs - keepMs) / unitMs.HOUR) : 0;
    const deleted = await store.tidy(keptFromHour, Math.floor(nowMs / unitMs.HOUR));
    if (deleted > 0)
      onTidy(`deleted usage from before ${rfc3339(keptFromHour * unitMs.HOUR)}: ${deleted} rows or files`);
  }

  async #take(id: string): Promise<void> {
    const { sources, store, onLeftOut } = this.#options;
    const entries = new Map<string, UsageEntry>(); // one may be on several pages
    const added = new Map<string, UsageEntry>();
    let after: string | undefined;
    do {
      const page = await sources.read(id, after);
      if (!page) return; // no decider has it, or has replied: the next round begins again
      for (const name of page.foreign ?? []) onLeftOut(`${name}, which no instance of Weir has written`);
      for (const entry of page.entries) entries.set(nameEntry(entry), entry);
      for (const entry of page.added ?? []) addTo(added, entry);
      after = page.next;
    } while (after !== undefined);
    for (const entry of entries.values()) addTo(added, entry);
    const leftOut = await store.add(id, Array.from(added.values(), this.#describe));
    if (leftOut !== undefined) onLeftOut(leftOut);
    await sources.drop(id);
  }

  readonly #describe = ({ hour, key, hits }: UsageEntry): UsageRow => {
    const { rules, hash } = this.#options;
    return { hour, ...describeCounter(key, rules(), hash), hits };
  };
}

/** The clock may be this far after the newest usage: service may have been down, or the clock may be wrong. */
const MAX_JUMP_MS = unitMs.WEEK;

/** The end of the newest hour with usage; without any, nothing can be deleted wrongly. */
const readNewest = async (store: UsageStore): Promise<number> =>
  ((await store.newestHour()) ?? Number.POSITIVE_INFINITY) * unitMs.HOUR + unitMs.HOUR;

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
