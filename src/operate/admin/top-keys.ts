import { groupBy } from '../../base/group.ts';
import { inTurns } from '../../base/slices.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import type { Answer, Code, Verdict } from '../../engine/decide/decide.ts';
import { isCommit } from '../../engine/holds/reports.ts';
import { countedEntries, type Entry } from '../../engine/rules/match/match.ts';
import type { ShownKey, ShownTop, TopKind } from '../answers/views.ts';
import { ByteBudget, RotatingTop } from '../sketches/rotating-top.ts';
import { mergeTop, type TopList } from '../sketches/space-saving.ts';
import { createTopName, SEPARATOR } from '../sketches/top-name.ts';
import { Sample } from './sample.ts';
import { countBounds, sampleConfidence, unlistedAtMost } from './sampling-error.ts';

export const topKinds = ['hits', 'refusals', 'refused_requests', 'shadowed'] as const satisfies readonly TopKind[];

/** The most keys in a rule's table of ten seconds. */
const CAPACITY = 1_000;

/** The name under which rules without tables of their own share one. */
export const SHARED_TABLE = '(rules without a table of their own)';

/** The hits of a descriptor; the verdict of a budget has what they cost. */
const hitsOf = ({ hits, limit, rule }: LimitedVerdict): number =>
  rule.unitCost && limit.currency !== undefined ? hits / rule.unitCost.billionths : hits;

/** The fraction of the memory reserved for the shared table. */
const SHARED_PART = 1 / 8;

/** How many hits a sampled hit stands for, and how many requests. */
interface Weight {
  readonly weight: number;
  readonly ofRequest: number;
}

type LimitedVerdict = Extract<Verdict, { kind: 'limited' }>;

type Tables = { readonly [K in TopKind]: RotatingTop };

/** The most frequent keys of a rule, or of those that share a table. */
export interface RuleTop {
  readonly rule: string;
  readonly by: TopKind;
  readonly list: TopList;
  /** In `list`, at least one hit in this many was counted: see `Sample`. */
  readonly countedOneIn: number;
}

/** At most this many rules, or one. */
export interface SelectedRules {
  readonly rules?: number;
  readonly rule?: string | undefined;
}

/** The clients of a rule with the most refused requests. */
export interface RefusedTop extends RuleTop {
  /** For each entry of the list, its refused hits and all of its hits. */
  readonly hits: readonly (readonly [refused: number, all: number])[];
}

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

  /** @param descriptors  the request's, in the order of the verdicts */
  answered(descriptors: readonly { readonly entries: readonly Entry[] }[], { verdicts, overallCode }: Answer): void {
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (verdict?.kind !== 'limited' || verdict.hits <= 0) continue;
      const hits = hitsOf(verdict);
      const weight = this.#sample.weightOf(hits);
      if (weight > 0)
        this.#count(descriptors[at]?.entries ?? [], verdict, { weight, ofRequest: weight / hits }, overallCode);
    }
  }

  #count(entries: readonly Entry[], verdict: LimitedVerdict, { weight, ofRequest }: Weight, overall: Code): void {
    const { rule, decision, code, shadowRefusals } = verdict;
    if (isCommit(decision)) return;
    const name = createTopName(countedEntries(rule, entries));
    this.#add(rule.path, 'hits', name, weight);
    if (code === 'OVER_LIMIT' && overall === 'OVER_LIMIT') {
      this.#add(rule.path, 'refusals', name, weight);
      this.#add(rule.path, 'refused_requests', name, ofRequest); // 1, unless requests are sampled
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
  async refused({ rules, keys }: { readonly rules: number; readonly keys: number }): Promise<readonly RefusedTop[]> {
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

/** Approximate memory of a rule besides its tables with counts: its name, the map's entry, two objects. */
const ruleBytes = (rule: string): number => 500 + 2 * rule.length;

const tables = (budget: ByteBudget): Tables =>
  Object.fromEntries(topKinds.map((kind) => [kind, new RotatingTop(CAPACITY, budget)])) as Tables; // of all kinds

/** A key of a table, for operators. */
interface DescribedKey {
  /** Absent: the rule of the list. */
  readonly rule?: string;
  readonly entries: readonly Entry[];
  /** The end of the descriptor was cut off, since it is too long. */
  readonly cut?: true;
}

/** Parses the name of a descriptor; the table may have cut off its end. */
export function describeKey(key: string): DescribedKey {
  const start = key.startsWith('|') ? -1 : key.indexOf(SEPARATOR);
  const texts: string[] = [];
  let isCut = false;
  for (let at = start + 1; at < key.length && !isCut; ) {
    const colon = key.indexOf(':', at);
    const end = colon + 1 + Number(key.slice(at + 1, colon));
    isCut = colon < 0 || !(end <= key.length);
    if (colon >= 0) texts.push(key.slice(colon + 1, isCut ? key.length : end));
    at = end;
  }
  const entries = Array.from({ length: Math.ceil(texts.length / 2) }, (_, at) => ({
    key: texts[2 * at] ?? '',
    value: texts[2 * at + 1] ?? '',
  }));
  return { ...(start >= 0 && { rule: key.slice(0, start) }), entries, ...(isCut && { cut: true }) };
}

/** Merges the lists of several processes: one list for each rule. */
export function mergeRules(all: readonly (readonly RuleTop[])[]): readonly RuleTop[] {
  const byRule = groupBy(all.flat(), ({ rule }) => rule);
  return inOrder(Array.from(byRule.values(), mergeTables));
}

/** Tables that are listed in one turn of the event loop. */
const TABLES_A_TURN = 1;

const mergeTables = (tops: readonly RuleTop[]): RuleTop => ({
  ...(tops[0] as RuleTop), // at least one
  list: mergeTop(tops.map(({ list }) => list)),
  countedOneIn: Math.max(...tops.map(({ countedOneIn }) => countedOneIn)),
});

const inOrder = (tops: readonly RuleTop[]): readonly RuleTop[] =>
  tops.toSorted((one, other) => other.list.total - one.list.total);

/** A rule's most frequent descriptors. @param hash  hashes callers' values; undefined: they are shown unchanged */
export function describeTop(top: RuleTop, count: number, hash: ((text: string) => string) | undefined): ShownTop {
  const { rule, countedOneIn, list } = top;
  const keys = list.entries.slice(0, count).map(({ key, count: estimate, error }): ShownKey => {
    const hits = Math.round(estimate); // refused requests are fractions if requests are sampled
    const { entries: own, ...more } = describeKey(key);
    const shown = hash ? own.map((entry) => ({ key: entry.key, value: hash(entry.value) })) : own;
    const descriptor = more.rule === undefined ? descriptorText(shown) : `${more.rule} ${descriptorText(shown)}`;
    const counted = { hits, ...countBounds(hits, error, countedOneIn) };
    return { ...more, descriptor, ...(!hash && { entries: own }), ...counted };
  });
  const bounds = { unlistedAtMost: unlistedAtMost(top), countedOneIn, confidence: sampleConfidence(countedOneIn) };
  return { rule, total: Math.round(list.total), ...bounds, keys };
}
