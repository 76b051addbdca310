import {
  type Answer,
  type Limited,
  limitedBy,
  type RequestDescriptor,
  type Verdict,
} from '../../engine/decide/decide.ts';
import { isCommit } from '../../engine/holds/reports.ts';
import { countedBy, type Entry, type Miss } from '../../engine/rules/match/match.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { ByteBudget, RotatingTop } from '../lab/sketches/rotating-top.ts';
import { createTopName } from '../lab/sketches/top-name.ts';
import type { Tally } from './answers.ts';
import { byChange, type ChangedKeys, noTally, type RuleTrial } from './report.ts';

/** A request, and the answers of both rule trees. */
export interface TriedRequest {
  /** In the order of the verdicts. */
  readonly descriptors: readonly RequestDescriptor[];
  readonly live: Answer;
  readonly candidate: Answer;
}

/** The most rules with separate figures. */
const MAX_RULES = 5_000;
/** All other rules together. */
const OTHER_RULES = '(other rules)';
/** Limits sent with requests: their paths contain callers' values. */
const REQUEST_LIMITS = '(limits in requests)';
/** The most memory of all key tables in one process: some thousands of keys, which are listed in one turn. */
const MAX_KEY_BYTES = 1024 * 1024;

type Counts = { -readonly [K in keyof Tally]: Tally[K] };

type RuleFigures = ReturnType<typeof createFigures>;

const createFigures = (keyBytes: ByteBudget) => ({
  counts: { ...noTally },
  inLive: false,
  inCandidate: false,
  newlyRefused: new ChangedKeyTable(keyBytes),
  newlyPassed: new ChangedKeyTable(keyBytes),
});

/** Counts the answers that the candidate would change, by rule and key. */
export class Comparison {
  readonly #keyBytes = new ByteBudget(MAX_KEY_BYTES);
  readonly #rules = new Map<string, RuleFigures>();
  readonly #totals: Counts = { ...noTally };

  get totals(): Tally {
    return { ...this.#totals };
  }

  get ruleCount(): number {
    return this.#rules.size;
  }

  add({ descriptors, live, candidate }: TriedRequest): void {
    let isCounted = false;
    for (const [at, descriptor] of descriptors.entries()) {
      const [one, other] = [live.verdicts[at], candidate.verdicts[at]];
      if (!one || !other || !asksForHits(descriptor, one, other)) continue;
      isCounted = true;
      for (const pair of pairVerdicts(one, other)) this.#addVerdicts(...pair);
    }
    if (isCounted) count(this.#totals, live.overallCode === 'OVER_LIMIT', candidate.overallCode === 'OVER_LIMIT');
  }

  /**
   * @param most  the number of rules, those with the most changes
   * @param keys  the number of keys of each rule
   * @param rule  only this rule
   */
  rules(most: number, keys: number, rule?: string): readonly RuleTrial[] {
    return Array.from(this.#rules)
      .filter(([name]) => rule === undefined || name === rule)
      .sort(([, one], [, other]) => byChange(one.counts, other.counts))
      .slice(0, most)
      .map(([name, { counts, inLive, inCandidate, newlyRefused, newlyPassed }]) => ({
        ...counts,
        rule: name,
        inLive,
        inCandidate,
        newlyRefusedKeys: newlyRefused.report(keys),
        newlyPassedKeys: newlyPassed.report(keys),
      }));
  }

  #addVerdicts(live: Verdict, candidate: Verdict): void {
    const rule = findRule(candidate) ?? findRule(live);
    if (!rule) return;
    const figures = this.#figuresOf(rule.place === undefined ? REQUEST_LIMITS : rule.path);
    const [wasRefused, isRefused] = [isOver(live), isOver(candidate)];
    count(figures.counts, wasRefused, isRefused);
    figures.inLive ||= findRule(live)?.path === rule.path;
    figures.inCandidate ||= findRule(candidate)?.path === rule.path;
    if (wasRefused === isRefused) return;
    const { found } = [candidate, live].find(isLimited) as Limited; // one of them refuses
    figures[isRefused ? 'newlyRefused' : 'newlyPassed'].add(countedBy(found));
  }

  #figuresOf(rule: string): RuleFigures {
    const name = this.#rules.size < MAX_RULES || this.#rules.has(rule) ? rule : OTHER_RULES;
    const known = this.#rules.get(name);
    if (known) return known;
    const figures = createFigures(this.#keyBytes);
    this.#rules.set(name, figures);
    return figures;
  }
}

function count(into: Counts, wasRefused: boolean, isRefused: boolean): void {
  into.requests++;
  if (wasRefused) into.liveRefused++;
  if (isRefused) into.candidateRefused++;
  if (isRefused && !wasRefused) into.newlyRefused++;
  if (wasRefused && !isRefused) into.newlyPassed++;
}

const findRule = (verdict: Verdict): Rule | undefined => ('rule' in verdict ? verdict.rule : undefined);

const isLimited = (verdict: Verdict): verdict is Limited => verdict.kind === 'limited';

const isOver = (verdict: Verdict): boolean => isLimited(verdict) && verdict.code === 'OVER_LIMIT';

const NONE: Miss = { kind: 'no_rule' };

/** The verdicts of both on one descriptor: by rule if a requirement counts beside the rule of one of them. */
export function pairVerdicts(
  live: Verdict,
  candidate: Verdict,
): readonly (readonly [live: Verdict, candidate: Verdict])[] {
  const [ours, theirs] = [withThoseBeside(live), withThoseBeside(candidate)];
  if (ours.length === 1 && theirs.length === 1) return [[live, candidate]];
  const isSame = (one: Verdict, other: Verdict): boolean => findRule(one)?.path === findRule(other)?.path;
  const left = ours.filter((one) => !theirs.some((other) => isSame(one, other)));
  const pairs = theirs.map((one) => [ours.find((other) => isSame(one, other)) ?? left.shift() ?? NONE, one] as const);
  return [...pairs, ...left.map((one) => [one, NONE] as const)];
}

const withThoseBeside = (verdict: Verdict): readonly Verdict[] => (isLimited(verdict) ? limitedBy(verdict) : [verdict]);

/** Excludes peeks, hits that are given back, and hits that a request reports as used. */
const asksForHits = ({ hits }: RequestDescriptor, ...verdicts: readonly Verdict[]): boolean =>
  hits > 0 && !verdicts.some((verdict) => verdict.kind === 'limited' && isCommit(verdict.decision));

/** The most keys in one table. */
const CAPACITY = 200;

/** Counts the most frequent descriptors whose answers differ, in bounded memory. */
class ChangedKeyTable {
  readonly #top: RotatingTop;
  #hasUncounted = false;

  /** @param budget  shared with other tables */
  constructor(budget: ByteBudget) {
    this.#top = new RotatingTop(CAPACITY, budget);
  }

  add(entries: readonly Entry[]): void {
    if (!this.#top.add(createTopName(entries), 1)) this.#hasUncounted = true;
  }

  /** @param most  the longest list; 0: no list */
  report(most: number): ChangedKeys {
    const { entries, total, unlistedAtMost } = this.#top.list();
    const isAtLeast = this.#hasUncounted || unlistedAtMost > 0; // some key has no counter
    if (most === 0) return { list: NO_KEYS, count: entries.length, isAtLeast };
    // a key that is cut off was counted at most as often as the first of those
    const cut = entries[most]?.count ?? 0;
    const list = { entries: entries.slice(0, most), total, unlistedAtMost: Math.max(unlistedAtMost, cut) };
    return { list, count: entries.length, isAtLeast };
  }
}

const NO_KEYS = { entries: [], total: 0, unlistedAtMost: 0 };
