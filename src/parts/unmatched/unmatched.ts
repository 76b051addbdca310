import { NearestTexts } from '../../base/nearest.ts';
import type { Stop } from '../../edge/listing/shapes.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import { type Entry, findNode, type MissReason } from '../../engine/rules/match/match.ts';
import { missingText } from '../../engine/rules/match/required-keys.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { ByteBudget, RotatingTop } from '../lab/sketches/rotating-top.ts';
import { describeKey } from '../lab/sketches/rule-top.ts';
import { Sample } from '../lab/sketches/sample.ts';
import { countBounds } from '../lab/sketches/sampling-error.ts';
import type { TopEntry, TopList } from '../lab/sketches/space-saving.ts';
import { createTopName } from '../lab/sketches/top-name.ts';
import { findStop, type Search, search } from '../lab/stop.ts';
import type { UnmatchedDescriptor } from './answers.ts';

/** The most descriptors kept for ten seconds, and the most memory for them. */
const CAPACITY = 500;
const MAX_BYTES = 2 * 1024 * 1024;

/** Longer descriptors are cut. */
const MAX_LENGTH = 2_000;
const MAX_ENTRIES = 8;
const MAX_TEXT_LENGTH = 200;

/** The report of one process on descriptors that met no rule. */
export interface UnmatchedReport {
  readonly list: TopList;
  /** In `list`, at least one in this many was counted: see `Sample`. */
  readonly countedOneIn: number;
  readonly counts: readonly UnmatchedCount[];
}

/**
 * Counts descriptors that met no rule or no domain: the number by reason since the start, and the most frequent over
 * the last minute, among them those that stand for requests without required keys. Costs nothing if every descriptor
 * meets a rule.
 */
export class Unmatched {
  readonly #top = new RotatingTop(CAPACITY, new ByteBudget(MAX_BYTES));
  readonly #sample: Sample;
  readonly #counts = new UnmatchedCounts();

  constructor(sample = new Sample()) {
    this.#sample = sample;
  }

  answered(
    domain: string,
    descriptors: readonly { readonly entries: readonly Entry[] }[],
    { verdicts, unmet }: Answer,
  ): void {
    for (const { entries } of unmet?.missing ?? []) this.#add(domain, { entries });
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (verdict?.kind !== 'no_rule' && verdict?.kind !== 'no_domain') continue;
      if (verdict.reason === undefined) continue; // its rule was replaced by another rule of the request
      this.#counts.add(domain, verdict.reason);
      this.#add(domain, descriptors[at]);
    }
  }

  #add(domain: string, descriptor: { readonly entries: readonly Entry[] } | undefined): void {
    const weight = this.#sample.weightOf(1);
    if (weight > 0) this.#top.add(createName(domain, descriptor?.entries ?? []), weight);
  }

  /** To be called every ten seconds. */
  rotate(): void {
    this.#sample.rotate();
    this.#top.rotate();
  }

  report(): UnmatchedReport {
    return { list: this.#top.list(), countedOneIn: this.#sample.oneIn, counts: [...this.#counts.all()] };
  }
}

/** The name of a descriptor: its first entry is the domain. */
function createName(domain: string, entries: readonly Entry[]): string {
  let length = domain.length;
  for (const { key, value } of entries) length += key.length + value.length;
  if (length <= MAX_LENGTH) return createTopName([{ key: domain, value: '' }, ...entries]);
  return createTopName([{ key: domain.slice(0, MAX_TEXT_LENGTH), value: '' }, ...shortened(entries)]);
}

const shortened = (entries: readonly Entry[]): readonly Entry[] =>
  entries
    .slice(0, MAX_ENTRIES)
    .map(({ key, value }) => ({ key: key.slice(0, MAX_TEXT_LENGTH), value: value.slice(0, MAX_TEXT_LENGTH) }));

/** The domain of an entry of the list. */
export const domainOf = ({ key }: TopEntry): string => describeKey(key).entries[0]?.key ?? '';

const WINDOW_S = 60;

/** The most texts that are compared for one list; the first descriptors, which are the most frequent, come first. */
const MAX_COMPARED = 50_000;

/**
 * Adds to each descriptor why the rules in force now do not match it.
 *
 * @param countedOneIn  at least one in this many was counted
 */
export function describeUnmatched(
  rules: RuleTree | undefined,
  { entries }: Pick<TopList, 'entries'>,
  countedOneIn = 1,
): readonly UnmatchedDescriptor[] {
  const nearest = new NearestTexts(MAX_COMPARED);
  return entries.map((one) => describeOne(rules, one, countedOneIn, nearest));
}

const keptStops = new WeakMap<RuleTree, Map<string, Stop | undefined>>();

/** Where the search for a descriptor ends: cached, since the same descriptors are listed again and again. */
function findKeptStop(
  rules: RuleTree,
  key: string,
  { domain, entries }: Pick<Search, 'domain' | 'entries'>,
  nearest: NearestTexts,
): Stop | undefined {
  let kept = keptStops.get(rules);
  if (!kept || kept.size >= CAPACITY) {
    kept = new Map();
    keptStops.set(rules, kept);
  }
  if (kept.has(key)) return kept.get(key);
  const found = search(rules, domain, { entries, requestLimit: undefined });
  const stop = missingStop(found) ?? findStop(found, nearest);
  if (!nearest.isUsedUp) kept.set(key, stop); // otherwise the next list compares it with more
  return stop;
}

/** For a descriptor that stands for requests without required keys: see `Unmet`. */
function missingStop({ rules, domain, entries }: Search): Stop | undefined {
  let level = rules.domains.get(domain)?.root;
  for (const [at, entry] of entries.entries()) {
    if (level?.required?.counts(entry)) {
      const why = missingText(level.required.requirement);
      return { level: at + 1, reason: 'required_key_missing', why, nearest: [] };
    }
    level = level && findNode(level, entry)?.children;
  }
  return undefined;
}

function describeOne(
  rules: RuleTree | undefined,
  { key, count, error: counted }: TopEntry,
  countedOneIn: number,
  nearest: NearestTexts,
): UnmatchedDescriptor {
  const [first, ...entries] = describeKey(key).entries;
  const domain = first?.key ?? '';
  const { atMostTooHighBy: error, ...tooLow } = countBounds(count, counted, countedOneIn);
  const perSecond = Math.round((count / WINDOW_S) * 100) / 100;
  const known = { domain, entries, count, error, ...tooLow, perSecond };
  const stopped = rules && findKeptStop(rules, key, { domain, entries }, nearest);
  if (!stopped) return known;
  const { reason, level, why } = stopped;
  return { ...known, reason, level, why, nearest: stopped.nearest };
}

/** A count of `weir_unmatched_total`. */
interface UnmatchedCount {
  readonly domain: string;
  readonly reason: MissReason;
  readonly count: number;
}

/** Domains without rules: callers create their names. */
const OTHER = '(other)';

/** The number of descriptors that met no rule, by domain and reason; not sampled. */
class UnmatchedCounts {
  readonly #byDomain = new Map<string, Map<MissReason, { count: number }>>();
  /** The pair that was counted last, which is mostly the next one as well. */
  #domain = '';
  #reason: MissReason | undefined;
  #last = { count: 0 };

  add(domain: string, reason: MissReason): void {
    if (reason !== this.#reason || domain !== this.#domain) {
      this.#last = this.#of(domain, reason);
      this.#domain = domain;
      this.#reason = reason;
    }
    this.#last.count++;
  }

  *all(): Iterable<UnmatchedCount> {
    for (const [domain, byReason] of this.#byDomain)
      for (const [reason, { count }] of byReason) yield { domain, reason, count };
  }

  #of(domain: string, reason: MissReason): { count: number } {
    const label = reason === 'no_domain' ? OTHER : domain;
    const byReason = this.#byDomain.get(label) ?? new Map<MissReason, { count: number }>();
    this.#byDomain.set(label, byReason);
    const known = byReason.get(reason) ?? { count: 0 };
    byReason.set(reason, known);
    return known;
  }
}
