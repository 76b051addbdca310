import type { Answer } from '../decide.ts';
import type { Entry } from '../rules/match.ts';
import { ByteBudget, RotatingTop } from './rotating-top.ts';
import { mergeTop, type TopList } from './space-saving.ts';

export const topKinds = ['hits', 'refusals'] as const;
export type TopKind = (typeof topKinds)[number];

/** Keys of a rule's table for ten seconds. */
const CAPACITY = 1_000;

/** Rules that have no tables of their own share one under this name. */
export const SHARED_TABLE = '(rules without a table of their own)';

/** Part of the memory that is kept for the shared table. */
const SHARED_PART = 1 / 8;

type Tables = { readonly [K in TopKind]: RotatingTop };

/** The most frequent keys of a rule, or of those that share a table. */
export interface RuleTop {
  readonly rule: string;
  readonly by: TopKind;
  readonly list: TopList;
}

/** Counts which descriptors hit each rule most, and which are refused most, over the last minute. */
export class TopKeys {
  readonly #budget: ByteBudget;
  readonly #byRule = new Map<string, Tables>();
  readonly #shared: Tables;

  constructor(maxBytes: number) {
    const sharedBudget = new ByteBudget(Math.floor(maxBytes * SHARED_PART));
    this.#budget = new ByteBudget(maxBytes - Math.floor(maxBytes * SHARED_PART));
    this.#shared = tables(sharedBudget);
  }

  get bytes(): number {
    return this.#budget.usedBytes;
  }

  /** @param descriptors  the request's, in the order of the verdicts */
  answered(descriptors: readonly { readonly entries: readonly Entry[] }[], { verdicts }: Answer): void {
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (verdict?.kind !== 'limited' || verdict.hits <= 0) continue;
      const key = keyOf(descriptors[at]?.entries ?? []);
      this.#add(verdict.rule.path, 'hits', key, verdict.hits);
      if (verdict.decision.code === 'OVER_LIMIT') this.#add(verdict.rule.path, 'refusals', key, verdict.hits);
    }
  }

  /** To be called every ten seconds. */
  rotate(): void {
    for (const [rule, own] of this.#byRule) {
      for (const kind of topKinds) own[kind].rotate();
      if (!topKinds.every((kind) => own[kind].isEmpty)) continue;
      for (const kind of topKinds) own[kind].clear();
      this.#byRule.delete(rule);
    }
    for (const kind of topKinds) this.#shared[kind].rotate();
  }

  lists(by: TopKind): readonly RuleTop[] {
    const own = Array.from(this.#byRule, ([rule, { [by]: top }]) => ({ rule, by, list: top.list() }));
    const shared = this.#shared[by].isEmpty ? [] : [{ rule: SHARED_TABLE, by, list: this.#shared[by].list() }];
    return [...own, ...shared].filter(({ list }) => list.total > 0);
  }

  #add(rule: string, kind: TopKind, key: string, hits: number): void {
    let own = this.#byRule.get(rule);
    if (!own && this.#budget.hasRoomFor(TABLE_BYTES)) {
      own = tables(this.#budget);
      this.#byRule.set(rule, own);
    }
    if (!own?.[kind].add(key, hits)) this.#shared[kind].add(`${rule} ${key}`, hits);
  }
}

/** A rule gets tables while so much is free: else they would be too short to say anything. */
const TABLE_BYTES = 16 * 1024;

const tables = (budget: ByteBudget): Tables => ({
  hits: new RotatingTop(CAPACITY, budget),
  refusals: new RotatingTop(CAPACITY, budget),
});

/** `user=alice,path=/login`. */
export function keyOf(entries: readonly Entry[]): string {
  let key = '';
  for (const entry of entries) key += key === '' ? `${entry.key}=${entry.value}` : `,${entry.key}=${entry.value}`;
  return key;
}

/** The lists of several processes, a rule each. */
export function mergeRules(all: readonly (readonly RuleTop[])[]): readonly RuleTop[] {
  const byRule = new Map<string, RuleTop[]>();
  for (const top of all.flat()) byRule.set(top.rule, [...(byRule.get(top.rule) ?? []), top]);
  return Array.from(byRule.values(), (tops) => ({
    ...(tops[0] as RuleTop),
    list: mergeTop(tops.map(({ list }) => list)),
  })) // one at least
    .sort((one, other) => other.list.total - one.list.total);
}
