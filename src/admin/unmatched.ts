import type { Answer } from '../decide.ts';
import { descriptorKey } from '../overrides.ts';
import type { Entry } from '../rules/match.ts';
import { type NearRule, type StopReason, search, stopOf, stopReasonOf } from '../rules/stop.ts';
import type { RuleTree } from '../rules/tree.ts';
import { inSlices } from '../slices.ts';
import { textsOf } from './counter-key.ts';
import { ByteBudget, RotatingTop } from './rotating-top.ts';
import { Sample } from './sample.ts';
import type { TopEntry, TopList } from './space-saving.ts';
import { topNameOfText } from './top-name.ts';

/** Descriptors that are kept of ten seconds, and what they may take together. */
const CAPACITY = 500;
const MAX_BYTES = 2 * 1024 * 1024;

/** Reasons that are remembered, so that a descriptor that keeps coming is searched for once. */
const MAX_REASONS = 1_000;

/** Labels of metrics: domains beyond so many share one. */
const MAX_DOMAINS = 100;
const OTHER = '(other)';

/** Longer ones are cut. */
const MAX_KEY_LENGTH = 2_000;
const MAX_ENTRIES = 8;
const MAX_TEXT_LENGTH = 200;

/** Counts of `weir_unmatched_total`. */
export interface UnmatchedCount {
  readonly domain: string;
  readonly reason: StopReason;
  readonly count: number;
}

/** What one process knows of descriptors that met no rule. */
export interface UnmatchedReport {
  readonly list: TopList;
  readonly counts: readonly UnmatchedCount[];
}

/**
 * Counts descriptors that met no rule or no domain, over the last minute. Costs nothing where every descriptor meets
 * one.
 */
export class Unmatched {
  readonly #rules: () => RuleTree | undefined;
  readonly #top = new RotatingTop(CAPACITY, new ByteBudget(MAX_BYTES));
  readonly #sample = new Sample();
  readonly #counts = new Map<string, Map<StopReason, number>>();
  /** Why descriptors met no rule, by the rules that they were matched by. */
  readonly #reasons = new Map<string, StopReason>();
  #reasonsOf: RuleTree | undefined;

  constructor(rules: () => RuleTree | undefined) {
    this.#rules = rules;
  }

  answered(domain: string, descriptors: readonly { readonly entries: readonly Entry[] }[], { verdicts }: Answer): void {
    for (let at = 0; at < verdicts.length; at++) {
      const kind = verdicts[at]?.kind;
      if (kind === 'no_rule' || kind === 'no_domain') this.#add(domain, descriptors[at]?.entries ?? [], kind);
    }
  }

  /** To be called every ten seconds. */
  rotate(): void {
    this.#sample.rotate();
    this.#top.rotate();
  }

  report(): UnmatchedReport {
    const counts = Array.from(this.#counts, ([domain, byReason]) =>
      Array.from(byReason, ([reason, count]) => ({ domain, reason, count })),
    );
    return { list: this.#top.list(), counts: counts.flat() };
  }

  #reasonOf(key: string, domain: string, entries: readonly Entry[]): StopReason | undefined {
    const rules = this.#rules();
    if (rules !== this.#reasonsOf || this.#reasons.size >= MAX_REASONS) this.#reasons.clear();
    this.#reasonsOf = rules;
    const known = this.#reasons.get(key);
    if (known) return known;
    const reason = rules && stopReasonOf(search(rules, domain, { entries, requestLimit: undefined }));
    if (reason) this.#reasons.set(key, reason);
    return reason;
  }

  #add(domain: string, entries: readonly Entry[], kind: 'no_rule' | 'no_domain'): void {
    const weight = this.#sample.weight();
    if (weight === 0) return;
    const whole = descriptorKey(domain, entries);
    const key =
      whole.length > MAX_KEY_LENGTH ? descriptorKey(domain.slice(0, MAX_TEXT_LENGTH), shortened(entries)) : whole;
    const reason = kind === 'no_domain' ? kind : this.#reasonOf(key, domain, entries);
    if (!reason) return; // another rule of the request replaced its own
    this.#top.add(topNameOfText(key), weight);
    const isLabel = kind === 'no_rule' && (this.#counts.has(domain) || this.#counts.size < MAX_DOMAINS);
    const label = isLabel ? domain : OTHER;
    const byReason = this.#counts.get(label) ?? new Map<StopReason, number>();
    this.#counts.set(label, byReason);
    byReason.set(reason, (byReason.get(reason) ?? 0) + weight);
  }
}

const shortened = (entries: readonly Entry[]): readonly Entry[] =>
  entries
    .slice(0, MAX_ENTRIES)
    .map(({ key, value }) => ({ key: key.slice(0, MAX_TEXT_LENGTH), value: value.slice(0, MAX_TEXT_LENGTH) }));

/** A descriptor that met no rule, for operators. */
export interface UnmatchedDescriptor {
  readonly domain: string;
  readonly entries: readonly Entry[];
  /** Requests of the last minute with it, at least so many less `error`. */
  readonly count: number;
  readonly error: number;
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

/** Says of each what the rules in force now make of it. */
export async function describeUnmatched(
  rules: RuleTree | undefined,
  { entries }: TopList,
): Promise<readonly UnmatchedDescriptor[]> {
  const described: UnmatchedDescriptor[] = [];
  for await (const slice of inSlices(entries, DESCRIBED_A_TURN))
    for (const one of slice) described.push(describeOne(rules, one));
  return described;
}

function describeOne(rules: RuleTree | undefined, { key, count, error }: TopEntry): UnmatchedDescriptor {
  const [domain = '', ...texts] = textsOf(`|${key}`, 0) ?? [];
  const entries: Entry[] = [];
  for (let at = 0; at + 1 < texts.length; at += 2) entries.push({ key: texts[at] ?? '', value: texts[at + 1] ?? '' });
  const known = { domain, entries, count, error, perSecond: Math.round((count / WINDOW_S) * 100) / 100 };
  const stopped = rules && stopOf(rules, domain, entries, search(rules, domain, { entries, requestLimit: undefined }));
  if (!stopped) return known;
  const { reason, level, why, nearest } = stopped;
  return { ...known, reason, level, why, nearest };
}
