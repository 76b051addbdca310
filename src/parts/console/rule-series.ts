import type { View } from '../../operate/admin/scope.ts';
import { type RuleCounts, takePeaks } from '../../operate/observe/rule-counts.ts';
import { type Range, Series } from '../../operate/status/series.ts';
import { Episode } from './episode.ts';
import { allRuleFields } from './rule-fields.ts';

type RuleField = (typeof allRuleFields)[number];

/** The fields that are levels. The others are counts, whose series has the rate. */
const levels: ReadonlySet<RuleField> = new Set<RuleField>(['share', 'held', 'oldest', 'limit']);
const isLevel = allRuleFields.map((field) => levels.has(field));

const PASSED = allRuleFields.indexOf('passed');
const REFUSED = allRuleFields.indexOf('refused');
const HELD = allRuleFields.indexOf('held');

/** The name for the sum of all rules whose names contain callers' values, in place of these names. */
export const NAMED_BY_CALLERS = '(limits named by callers)';

/** The most rules with a series: about 8 MB for all, or more if they have slots. */
export const MAX_RULES = 1_000;

/** The most counts that are read: a rule may count under several algorithms. */
const MAX_COUNTS = 2 * MAX_RULES;

interface RuleEntry {
  readonly series: Series;
  /** The counts so far. */
  readonly counts: Float64Array;
  /** The change in the last second; levels as they are. */
  readonly rates: Float64Array;
  /** Of its refusals. */
  readonly episode: Episode;
  /** Whether any client may see the name: it comes from a rule. */
  isOpen: boolean;
}

/** A rule's last second: one number for each of `ruleFields`, or of `allRuleFields`. */
export type RuleRates = readonly [rule: string, ...rates: number[]];

/** A rule that refused in the last minute; counts are descriptors. */
export interface RefusingRule {
  readonly rule: string;
  readonly refused: number;
  readonly passed: number;
  /** When it refused for the first time, without five minutes in between in which it did not. */
  readonly sinceMs: number;
}

/**
 * The series of rules over the last minute, ten minutes, hour and day, taken from their counts once a second. A rule
 * without a hit takes no memory.
 */
export class AllRuleSeries {
  readonly #byRule = new Map<string, RuleEntry>();
  readonly #active = new Set<string>();

  /** Rules with a series. */
  get size(): number {
    return this.#byRule.size;
  }

  /** To be called once a second. */
  gather(rules: Iterable<RuleCounts>, nowMs: number): void {
    const { now, open } = this.#countsOf(rules);
    this.#active.clear();
    for (const [rule, counts] of now) {
      const entry = this.#byRule.get(rule) ?? this.#begin(rule, counts.length);
      if (!entry) continue;
      entry.isOpen = open.has(rule);
      this.#step(rule, entry, counts, nowMs);
    }
  }

  /** What has been counted before the series begin is no part of them. */
  begin(rules: Iterable<RuleCounts>): void {
    for (const [rule, counts] of this.#countsOf(rules).now) this.#begin(rule, counts.length)?.counts.set(counts);
  }

  #countsOf(rules: Iterable<RuleCounts>) {
    const now = new Map<string, Float64Array>();
    const open = new Set([NAMED_BY_CALLERS]);
    let left = MAX_COUNTS;
    for (const counts of rules) {
      if (left-- === 0) break; // rules that were hit first come first
      const name = `${counts.domain}.${counts.rule}`;
      const row = this.#row(counts);
      if (counts.named === 'by_rule') open.add(name);
      else addTo(now, NAMED_BY_CALLERS, row);
      addTo(now, name, row);
    }
    return { now, open };
  }

  /** The rates of the rules that were hit in the last second. */
  active(view: View): readonly RuleRates[] {
    return Array.from(
      [...this.#active].filter((rule) => this.#isShown(rule, view)),
      (rule): RuleRates => [rule, ...Array.from(this.#byRule.get(rule)?.rates ?? [], rounded)],
    );
  }

  /** The rules that refused most in the last minute. */
  refusingMost(count: number, view: View, nowMs: number): readonly RefusingRule[] {
    const all = Array.from(this.#byRule, ([rule, { series, episode }]) => ({
      rule,
      refused: series.minuteSum(REFUSED),
      passed: series.minuteSum(PASSED),
      sinceMs: episode.sinceMs(nowMs) ?? nowMs,
    }));
    return all
      .filter(({ rule, refused }) => refused > 0 && this.#isShown(rule, view))
      .sort((one, other) => other.refused - one.refused)
      .slice(0, count);
  }

  /** One column for each of the rule's fields; undefined: the rule has no series, or may not be shown. */
  columns(rule: string, range: Range, view: View): Readonly<Record<string, readonly number[]>> | undefined {
    const entry = this.#byRule.get(rule);
    if (!entry || !this.#isShown(rule, view)) return undefined;
    const fields = allRuleFields.slice(0, entry.counts.length);
    return Object.fromEntries(fields.map((field, at) => [field, entry.series.column(range, at)]));
  }

  names(view: View): readonly string[] {
    return [...this.#byRule.keys()].filter((rule) => this.#isShown(rule, view));
  }

  #isShown(rule: string, view: View): boolean {
    if (typeof view === 'object') return view.hasRule(rule);
    return view === 'values' ? rule !== NAMED_BY_CALLERS : this.#byRule.get(rule)?.isOpen === true;
  }

  #begin(rule: string, width: number): RuleEntry | undefined {
    if (this.#byRule.size >= MAX_RULES) return undefined;
    const fresh: RuleEntry = {
      series: new Series(isLevel.slice(0, width).map((isMax) => (isMax ? 'max' : 'mean'))),
      counts: new Float64Array(width),
      rates: new Float64Array(width),
      episode: new Episode(),
      isOpen: false,
    };
    this.#byRule.set(rule, fresh);
    return fresh;
  }

  #step(rule: string, entry: RuleEntry, counts: Float64Array, nowMs: number): void {
    let isActive = false;
    entry.counts.forEach((before, at) => {
      const count = counts[at] ?? 0;
      const rate = isLevel[at] ? count : count - before;
      entry.rates[at] = rate;
      entry.counts[at] = count;
      if (rate > 0 && (!isLevel[at] || at === HELD)) isActive = true;
    });
    entry.series.push(entry.rates);
    if ((entry.rates[REFUSED] ?? 0) > 0) entry.episode.note(nowMs);
    if (isActive) this.#active.add(rule);
  }

  #row(counts: RuleCounts): readonly number[] {
    const { answeredOk, answeredOver, softLimit, shadowMode, share, holds, adapted } = counts;
    const row = [answeredOk, answeredOver, softLimit, shadowMode, share.value];
    if (!holds) return row;
    const { held, oldestMs } = takePeaks(holds);
    const limit = adapted?.limit ?? 0;
    const last = this.#byRule.get(`${counts.domain}.${counts.rule}`)?.rates;
    const lastHeld = Math.min(last?.[HELD] ?? 0, holds.held.value); // the peak drops out after a minute
    const isQuiet = held === 0 && lastHeld > 0 && answeredOk + answeredOver === this.#answersOf(counts);
    if (isQuiet) return [...row, holds.expired, lastHeld, (last?.[HELD + 1] ?? 0) + 1, limit];
    return [...row, holds.expired, held, oldestMs / 1_000, limit];
  }

  /** The number of descriptors that the rule had answered a second ago. */
  #answersOf({ domain, rule }: RuleCounts): number {
    const [ok = 0, over = 0] = this.#byRule.get(`${domain}.${rule}`)?.counts ?? [];
    return ok + over;
  }
}

/**
 * Adds to the counts under a name: a rule may count under several algorithms. The sum of rules that callers name has
 * all fields from the start, since one with slots may come later; slots of different rules add up.
 */
function addTo(sums: Map<string, Float64Array>, name: string, row: readonly number[]): void {
  const isOfCallers = name === NAMED_BY_CALLERS;
  const known = sums.get(name);
  const length = Math.max(isOfCallers ? allRuleFields.length : row.length, known?.length ?? 0);
  const sum = Float64Array.from({ length }, (_, at) => {
    const [before, value] = [known?.[at] ?? 0, row[at] ?? 0];
    return isLevel[at] && !(isOfCallers && at === HELD) ? Math.max(before, value) : before + value;
  });
  sums.set(name, sum);
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;
