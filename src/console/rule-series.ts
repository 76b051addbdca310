import type { RuleCounts } from '../observe/rule-counts.ts';
import { type Range, Series } from './series.ts';

/**
 * What is counted of a rule. passed, refused: descriptors a second. soft, shadow: hits a second. share: the highest
 * share of its limit.
 */
export const ruleFields = ['passed', 'refused', 'soft', 'shadow', 'share'] as const;

const SHARE = ruleFields.indexOf('share');
const REFUSED = ruleFields.indexOf('refused');

/** Rules beyond these have no series: about 7 MB for all. */
export const MAX_RULES = 1_000;

/** Counts that are read: a rule may count under several algorithms. */
const MAX_COUNTS = 2 * MAX_RULES;

interface RuleEntry {
  readonly series: Series;
  /** Counts so far. */
  readonly counts: Float64Array;
  /** Since the last second; the share as it is. */
  readonly rates: Float64Array;
}

/** Where the last second's rate of a rule stands: one number for each of `ruleFields`. */
export type RuleRates = readonly [rule: string, ...rates: number[]];

/**
 * What rules did in the last minute, hour and day, taken from their counts once a second. A rule without a hit takes no
 * memory.
 */
export class AllRuleSeries {
  readonly #byRule = new Map<string, RuleEntry>();
  readonly #active = new Set<string>();

  /** Rules with a series. */
  get size(): number {
    return this.#byRule.size;
  }

  /** To be called once a second. */
  gather(rules: Iterable<RuleCounts>): void {
    const now = new Map<string, Float64Array>();
    let left = MAX_COUNTS;
    for (const counts of rules) {
      if (left-- === 0) break; // those that were hit first come first
      addTo(now, `${counts.domain}.${counts.rule}`, counts);
    }
    this.#active.clear();
    for (const [rule, counts] of now) {
      const entry = this.#byRule.get(rule) ?? this.#begin(rule);
      if (entry) this.#step(rule, entry, counts);
    }
  }

  /** Of the rules that were hit in the last second. */
  active(): readonly RuleRates[] {
    return Array.from(
      this.#active,
      (rule): RuleRates => [rule, ...Array.from(this.#byRule.get(rule)?.rates ?? [], rounded)],
    );
  }

  /** The rules that refused most in the last minute. */
  refusingMost(count: number): readonly { readonly rule: string; readonly refused: number }[] {
    const all = Array.from(this.#byRule, ([rule, { series }]) => ({ rule, refused: series.minuteSum(REFUSED) }));
    return all
      .filter(({ refused }) => refused > 0)
      .sort((one, other) => other.refused - one.refused)
      .slice(0, count);
  }

  /** One column for each of `ruleFields`; undefined: the rule has none. */
  columns(rule: string, range: Range): Readonly<Record<string, readonly number[]>> | undefined {
    const entry = this.#byRule.get(rule);
    return entry && Object.fromEntries(ruleFields.map((field, at) => [field, entry.series.column(range, at)]));
  }

  names(): Iterable<string> {
    return this.#byRule.keys();
  }

  #begin(rule: string): RuleEntry | undefined {
    if (this.#byRule.size >= MAX_RULES) return undefined;
    const fresh: RuleEntry = {
      series: new Series(ruleFields.map((_, at) => (at === SHARE ? 'max' : 'mean'))),
      counts: new Float64Array(ruleFields.length),
      rates: new Float64Array(ruleFields.length),
    };
    this.#byRule.set(rule, fresh);
    return fresh;
  }

  #step(rule: string, entry: RuleEntry, counts: Float64Array): void {
    let isActive = false;
    counts.forEach((count, at) => {
      const rate = at === SHARE ? count : count - (entry.counts[at] ?? 0);
      entry.rates[at] = rate;
      entry.counts[at] = count;
      if (at !== SHARE && rate > 0) isActive = true;
    });
    entry.series.push(entry.rates);
    if (isActive) this.#active.add(rule);
  }
}

/** A rule may count under several algorithms. */
function addTo(sums: Map<string, Float64Array>, rule: string, counts: RuleCounts): void {
  const row = [counts.answeredOk, counts.answeredOver, counts.softLimit, counts.shadowMode, counts.share.value];
  const known = sums.get(rule);
  if (!known) return void sums.set(rule, Float64Array.from(row));
  row.forEach((value, at) => {
    known[at] = at === SHARE ? Math.max(known[at] ?? 0, value) : (known[at] ?? 0) + value;
  });
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;
