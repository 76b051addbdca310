import { randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { capacityOf } from '../../engine/algorithms/index.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { Answer, Verdict } from '../../engine/decide/decide.ts';
import { BLOCK_COUNTER, BLOCK_TEXT } from '../../engine/decide/overrides.ts';
import { sourceOf } from '../../engine/ledger/debit.ts';
import { describeLimit, placeFields } from '../../engine/rules/match/describe.ts';
import { countedEntries, type Entry } from '../../engine/rules/match/match.ts';
import { passesInMs } from './explain.ts';

/** The most refusals explained in a second, and bounds on the size of each. */
const MAX_A_SECOND = 100;
const MAX_ENTRIES = 16;
const MAX_TEXT_LENGTH = 256;
/** The length to which a caller's texts are cut. */
export const keptText = (text: string): string => text.slice(0, MAX_TEXT_LENGTH);

/** The most descriptors kept of one request. */
const MAX_DESCRIPTORS = 16;

/** A refused request, explained by its own decisions. */
export interface SampledRefusal {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly domain: string;
  /** The value of the entry with `not_counted: trace`, else of that with `hold`. */
  readonly requestId?: string;
  /** How long until the request could pass; null: never. */
  readonly passesInMs: number | null;
  readonly descriptors: readonly RefusedDescriptor[];
}

export interface RefusedDescriptor {
  /** Without ids of the request. */
  readonly entries: readonly Entry[];
  readonly outcome: Verdict['kind'];
  readonly hits?: number;
  readonly rule?: string;
  readonly file?: string;
  readonly line?: number;
  /** The limit that the caller was shown. */
  readonly limit?: string;
  readonly name?: string;
  readonly code?: 'OK' | 'OVER_LIMIT';
  readonly source?: ReturnType<typeof sourceOf>;
  /** Hits used before, the request's, and what the limit admits: `5 + 1 = 6 > 5`. */
  readonly arithmetic?: string;
  readonly remaining?: number;
  /** How long until this limit alone would admit it; null: never. */
  readonly retryAfterMs?: number | null;
  /** The limit alone refuses nothing: it is in shadow mode, or in quota mode while others have room. */
  readonly shadow?: true;
  readonly quota?: true;
  /** The request is in the limit's soft part. */
  readonly soft?: true;
}

/** The refusals that one process keeps. */
export interface RefusalReport {
  /** Names the process. */
  readonly id: string;
  /** The number of refusals kept so far, including those replaced since. */
  readonly total: number;
  /** The oldest first. */
  readonly refusals: readonly SampledRefusal[];
  /** Refusals that were not kept, since there were too many in a second. */
  readonly dropped: number;
}

/** Keeps the last refusals, from their decisions alone: it queries no store. */
export class RefusalSample {
  readonly #max: number;
  readonly #clock: Clock;
  #kept: SampledRefusal[] = [];
  readonly #id = randomBytes(4).toString('hex');
  #total = 0;
  #inSecond = 0;
  #dropped = 0;

  /** @param max  the number of refusals kept, at least 1 */
  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
  }

  /** To be called with each answer after it has been sent. */
  answered(domain: string, descriptors: readonly { readonly entries: readonly Entry[] }[], answer: Answer): void {
    if (answer.overallCode !== 'OVER_LIMIT') return;
    if (this.#inSecond >= MAX_A_SECOND) {
      this.#dropped++;
      return;
    }
    this.#inSecond++;
    const kept = answer.verdicts
      .slice(0, MAX_DESCRIPTORS)
      .map((verdict, at) => describe(verdict, descriptors[at]?.entries ?? []));
    const requestId = requestIdOf(descriptors, answer);
    this.#kept[this.#total++ % this.#max] = {
      atMs: this.#clock(),
      domain: keptText(domain),
      ...(requestId !== undefined && { requestId: keptText(requestId) }),
      passesInMs: passesInMs(answer.retryAfterMs),
      descriptors: kept,
    };
  }

  /** To be called every second. */
  nextSecond(): void {
    this.#inSecond = 0;
  }

  report(): RefusalReport {
    const oldest = this.#kept.length < this.#max ? 0 : this.#total % this.#max;
    const refusals = [...this.#kept.slice(oldest), ...this.#kept.slice(0, oldest)];
    return { id: this.#id, total: this.#total, refusals, dropped: this.#dropped };
  }
}

/** The request's id under its rules: that of a trace comes before that of a slot. */
function requestIdOf(
  descriptors: readonly { readonly entries: readonly Entry[] }[],
  { verdicts }: Answer,
): string | undefined {
  const ids = verdicts.flatMap((verdict, at) =>
    'rule' in verdict && verdict.rule.ids
      ? verdict.rule.ids.map((id) => ({ as: id.as, value: descriptors[at]?.entries[id.at]?.value }))
      : [],
  );
  return (ids.find(({ as }) => as === 'trace') ?? ids[0])?.value;
}

function describe(verdict: Verdict, entries: readonly Entry[]): RefusedDescriptor {
  const counted = 'rule' in verdict ? countedEntries(verdict.rule, entries) : entries;
  const cut = counted.slice(0, MAX_ENTRIES).map(({ key, value }) => ({ key: keptText(key), value: keptText(value) }));
  if (verdict.kind !== 'limited')
    return { entries: cut, outcome: verdict.kind, ...('rule' in verdict && { rule: verdict.rule.path }) };
  const { rule, limit, label, policy, decision, hits } = verdict;
  const { hitsBefore, limitRemaining, retryAfterMs, code } = decision;
  const isOver = code === 'OVER_LIMIT';
  const isBlock = limit.counter === BLOCK_COUNTER;
  return {
    entries: cut,
    outcome: verdict.kind,
    hits,
    rule: rule.path,
    ...placeFields(rule.place),
    limit: isBlock ? BLOCK_TEXT : describeLimit({ limit, label }),
    ...(label.name !== '' && !isBlock && { name: label.name }),
    code,
    source: sourceOf(decision),
    arithmetic: isBlock
      ? 'blocked'
      : `${hitsBefore} + ${hits} = ${hitsBefore + hits} ${isOver ? '>' : '≤'} ${capacityOf(limit)}`,
    remaining: limitRemaining,
    ...(isOver && !isBlock && { retryAfterMs: retryAfterMs === NEVER_MS ? null : retryAfterMs }),
    ...(policy.shadow && { shadow: true }),
    ...(policy.quota && { quota: true }),
    ...(decision.soft && { soft: true }),
  };
}
