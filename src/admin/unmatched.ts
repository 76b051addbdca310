import type { Answer } from '../decide.ts';
import type { Entry } from '../rules/match.ts';
import { type NearRule, type StopReason, search, stopOf } from '../rules/stop.ts';
import type { RuleTree } from '../rules/tree.ts';
import { inSlices } from '../slices.ts';
import { ByteBudget, RotatingTop } from './rotating-top.ts';
import { Sample } from './sample.ts';
import { boundsOf } from './sampling-error.ts';
import type { TopEntry, TopList } from './space-saving.ts';
import { describeKey } from './top-keys.ts';
import { encodedEntries, type TopName, topNameOf } from './top-name.ts';
import { type UnmatchedCount, UnmatchedCounts } from './unmatched-counts.ts';

/** Descriptors that are kept of ten seconds, and what they may take together. */
const CAPACITY = 500;
const MAX_BYTES = 2 * 1024 * 1024;

/** Longer ones are cut. */
const MAX_LENGTH = 2_000;
const MAX_ENTRIES = 8;
const MAX_TEXT_LENGTH = 200;

/** What one process knows of descriptors that met no rule. */
export interface UnmatchedReport {
  readonly list: TopList;
  /** In `list` one in so many was counted, or more: see `Sample`. */
  readonly countedOneIn: number;
  readonly counts: readonly UnmatchedCount[];
}

/**
 * Counts descriptors that met no rule or no domain: how many by reason since the start, and which over the last minute.
 * Costs nothing where every descriptor meets one.
 */
export class Unmatched {
  readonly #top = new RotatingTop(CAPACITY, new ByteBudget(MAX_BYTES));
  readonly #sample: Sample;
  readonly #counts = new UnmatchedCounts();

  constructor(sample = new Sample()) {
    this.#sample = sample;
  }

  answered(domain: string, descriptors: readonly { readonly entries: readonly Entry[] }[], { verdicts }: Answer): void {
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (verdict?.kind !== 'no_rule' && verdict?.kind !== 'no_domain') continue;
      if (verdict.reason === undefined) continue; // another rule of the request replaced its own
      this.#counts.add(domain, verdict.reason);
      const weight = this.#sample.weightOf(1);
      if (weight > 0) this.#top.add(nameOf(domain, descriptors[at]?.entries ?? []), weight);
    }
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
function nameOf(domain: string, entries: readonly Entry[]): TopName {
  let length = domain.length;
  for (const { key, value } of entries) length += key.length + value.length;
  if (length <= MAX_LENGTH) return topNameOf([{ key: domain, value: '' }, ...entries]);
  return topNameOf([{ key: domain.slice(0, MAX_TEXT_LENGTH), value: '' }, ...shortened(entries)]);
}

const shortened = (entries: readonly Entry[]): readonly Entry[] =>
  entries
    .slice(0, MAX_ENTRIES)
    .map(({ key, value }) => ({ key: key.slice(0, MAX_TEXT_LENGTH), value: value.slice(0, MAX_TEXT_LENGTH) }));

/** Whether a key of the list is of the domain. */
export const isOfDomain = ({ key }: TopEntry, domain: string): boolean =>
  key.startsWith(encodedEntries([{ key: domain, value: '' }]));

/** A descriptor that met no rule, for operators. */
export interface UnmatchedDescriptor {
  readonly domain: string;
  readonly entries: readonly Entry[];
  /** Requests of the last minute with it. */
  readonly count: number;
  /** `count` is too high by so much at most. */
  readonly error: number;
  /** `count` is too low by so much at most; absent: it is not. */
  readonly atMostTooLowBy?: number;
  readonly perSecond: number;
  /** By the rules in force now. Absent: it would meet a rule now. */
  readonly reason?: StopReason;
  readonly level?: number;
  readonly why?: string;
  readonly nearest?: readonly NearRule[];
}

const WINDOW_S = 60;

/** Descriptors that are compared with the rules in one turn of the event loop: thousands of texts for each. */
export const DESCRIBED_A_TURN = 2;

/** Says of each what the rules in force now make of it. @param countedOneIn  one in so many was counted, or more */
export async function describeUnmatched(
  rules: RuleTree | undefined,
  { entries }: Pick<TopList, 'entries'>,
  countedOneIn = 1,
): Promise<readonly UnmatchedDescriptor[]> {
  const described: UnmatchedDescriptor[] = [];
  for await (const slice of inSlices(entries, DESCRIBED_A_TURN))
    for (const one of slice) described.push(describeOne(rules, one, countedOneIn));
  return described;
}

function describeOne(
  rules: RuleTree | undefined,
  { key, count, error: counted }: TopEntry,
  countedOneIn: number,
): UnmatchedDescriptor {
  const [first, ...entries] = describeKey(key).entries;
  const domain = first?.key ?? '';
  const { atMostTooHighBy: error, ...tooLow } = boundsOf(count, counted, countedOneIn);
  const perSecond = Math.round((count / WINDOW_S) * 100) / 100;
  const known = { domain, entries, count, error, ...tooLow, perSecond };
  const stopped = rules && stopOf(rules, domain, entries, search(rules, domain, { entries, requestLimit: undefined }));
  if (!stopped) return known;
  const { reason, level, why, nearest } = stopped;
  return { ...known, reason, level, why, nearest };
}
