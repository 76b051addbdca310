import { inTurns } from '../../base/slices.ts';
import type { Answer, Code, Verdict } from '../../engine/decide/decide.ts';
import { hitsOf } from '../../engine/decide/priced.ts';
import { isCommit } from '../../engine/holds/reports.ts';
import { countedBy } from '../../engine/rules/match/match.ts';
import { ByteBudget, RotatingTop } from '../lab/sketches/rotating-top.ts';
import type { ClientsQuestion, RefusedTop, RuleTop, SelectedRules } from '../lab/sketches/rule-top.ts';
import { Sample } from '../lab/sketches/sample.ts';
import { type TopKind, topKinds } from '../lab/sketches/shapes.ts';
import { createTopName, SEPARATOR } from '../lab/sketches/top-name.ts';

/** The most keys in a rule's table of ten seconds. */
const CAPACITY = 1_000;

/** The name under which rules without tables of their own share one. */
export const SHARED_TABLE = '(rules without a table of their own)';

/** The fraction of the memory reserved for the shared table. */
const SHARED_PART = 1 / 8;

type LimitedVerdict = Extract<Verdict, { kind: 'limited' }>;

type Tables = { readonly [K in TopKind]: RotatingTop };

/**
 * Counts the descriptors that hit each rule most in a minute, and those that are refused, or let pass by shadow or quota
 * mode, most.
 */
export class TopKeys {
  readonly #budget: ByteBudget;
  readonly #byRule = new Map<string, Tables>();
  readonly #shared: Tables;
  readonly #sample: Sample;

  constructor(maxBytes: number, sample = new Sample()) {
    this.#sample = sample;
    const sharedBudget = new ByteBudget(Math.floor(maxBytes * SHARED_PART));
    this.#budget = new ByteBudget(maxBytes - Math.floor(maxBytes * SHARED_PART));
    this.#shared = tables(sharedBudget);
  }

  get bytes(): number {
    return this.#budget.usedBytes;
  }

  answered({ verdicts, overallCode }: Answer): void {
    for (const verdict of verdicts) if (verdict.kind === 'limited') this.#count(verdict, overallCode);
  }

  #count(verdict: LimitedVerdict, overall: Code): void {
    const { rule, found, decision, code, shadowRefusals, beside } = verdict;
    if (beside) this.#count(beside, overall);
    if (verdict.hits <= 0 || isCommit(decision)) return;
    const hits = hitsOf(verdict);
    const weight = this.#sample.weightOf(hits);
    if (weight === 0) return;
    const name = createTopName(countedBy(found));
    this.#add(rule.path, 'hits', name, weight);
    if (code === 'OVER_LIMIT' && overall === 'OVER_LIMIT') {
      this.#add(rule.path, 'refusals', name, weight);
      this.#add(rule.path, 'refused_requests', name, weight / hits); // 1, unless requests are sampled
    } else if (decision.code === 'OVER_LIMIT' || shadowRefusals) this.#add(rule.path, 'shadowed', name, weight);
  }

  /** To be called every ten seconds. */
  rotate(): void {
    this.#sample.rotate();
    for (const [rule, own] of this.#byRule) {
      for (const kind of topKinds) own[kind].rotate();
      if (!topKinds.every((kind) => own[kind].isEmpty)) continue;
      this.#byRule.delete(rule);
      this.#budget.change(-ruleBytes(rule));
    }
    for (const kind of topKinds) this.#shared[kind].rotate();
  }

  /**
   * The lists of the rules with the highest totals, or of one rule; one table per turn of the event loop, since a table
   * has a thousand keys.
   */
  async lists(by: TopKind, selected: SelectedRules = {}): Promise<readonly RuleTop[]> {
    const { rules: most = Number.POSITIVE_INFINITY, rule: only } = selected;
    const chosen = [...this.#byRule, [SHARED_TABLE, this.#shared] as const]
      .filter(([rule]) => only === undefined || rule === only)
      .map(([rule, { [by]: table }]) => ({ rule, table, total: table.total }))
      .filter(({ total }) => total > 0)
      .sort((one, other) => other.total - one.total)
      .slice(0, most);
    const lists: RuleTop[] = [];
    for await (const tables of inTurns(chosen, TABLES_A_TURN))
      for (const { rule, table } of tables)
        lists.push({ rule, by, list: table.list(), countedOneIn: this.#sample.oneIn });
    return lists;
  }

  /** The clients with the most refused requests: at most `keys` of each of the rules that refuse most. */
  async refused({ rules, keys }: ClientsQuestion): Promise<readonly RefusedTop[]> {
    const tops = await this.lists('refused_requests', { rules });
    return tops.map(({ list, ...top }) => {
      const entries = list.entries.slice(0, keys);
      const unlistedAtMost = Math.max(list.unlistedAtMost, list.entries[keys]?.count ?? 0);
      const tables = this.#byRule.get(top.rule) ?? this.#shared;
      const hits = entries.map(({ key }) => [tables.refusals.countOf(key), tables.hits.countOf(key)] as const);
      return { ...top, list: { ...list, entries, unlistedAtMost }, hits };
    });
  }

  #add(rule: string, kind: TopKind, name: string, hits: number): void {
    let own = this.#byRule.get(rule);
    if (!own && this.#budget.hasRoomFor(ROOM_BYTES + ruleBytes(rule))) {
      own = tables(this.#budget);
      this.#byRule.set(rule, own);
      this.#budget.change(ruleBytes(rule));
    }
    if (!own?.[kind].add(name, hits)) this.#shared[kind].add(`${rule}${SEPARATOR}${name}`, hits);
  }
}

/** A rule gets tables only while this much memory is free: smaller ones would be of no use. */
const ROOM_BYTES = 16 * 1024;

/** Tables that are listed in one turn of the event loop. */
const TABLES_A_TURN = 1;

/** Approximate memory of a rule besides its tables with counts: its name, the map's entry, two objects. */
const ruleBytes = (rule: string): number => 500 + 2 * rule.length;

const tables = (budget: ByteBudget): Tables =>
  Object.fromEntries(topKinds.map((kind) => [kind, new RotatingTop(CAPACITY, budget)])) as Tables; // of all kinds
