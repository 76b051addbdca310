import { capacityOf } from '../algorithms/index.ts';
import { NEVER_MS } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import type { Answer, Verdict } from '../decide.ts';
import { sourceOf } from '../ledger/entry.ts';
import { describeLimit } from '../rules/describe.ts';
import { countedEntries, type Entry } from '../rules/match.ts';
import { placeFields } from '../rules/rule-place.ts';

/** Refusals that are explained in a second, and what one may take. */
const MAX_A_SECOND = 100;
const MAX_ENTRIES = 16;
const MAX_TEXT_LENGTH = 256;
/** As much of a caller's text as is kept. */
export const keptText = (text: string): string => text.slice(0, MAX_TEXT_LENGTH);

/** Descriptors of one request that are kept. */
const MAX_DESCRIPTORS = 16;

/** A request that was refused, explained by what its own decisions said. */
export interface SampledRefusal {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly domain: string;
  /** The value of the entry with `not_counted: trace`, else of that with `hold`. */
  readonly requestId?: string;
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
  /** Until the same request could pass; null: never. */
  readonly retryAfterMs?: number | null;
  readonly shadow?: true;
}

export interface RefusalReport {
  readonly refusals: readonly SampledRefusal[];
  /** Refusals that were not kept, since there were too many in a second. */
  readonly dropped: number;
}

/** Keeps the last refusals. Asks no store: what a decision said is all that it takes. */
export class RefusalSample {
  readonly #max: number;
  readonly #clock: Clock;
  #kept: SampledRefusal[] = [];
  #next = 0;
  #inSecond = 0;
  #dropped = 0;

  /** @param max  how many are kept, at least 1 */
  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
  }

  /** To be called with each answer, after it has left. */
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
    this.#kept[this.#next] = {
      atMs: this.#clock(),
      domain: keptText(domain),
      ...(requestId !== undefined && { requestId: keptText(requestId) }),
      descriptors: kept,
    };
    this.#next = (this.#next + 1) % this.#max;
  }

  /** To be called every second. */
  nextSecond(): void {
    this.#inSecond = 0;
  }

  report(): RefusalReport {
    return { refusals: [...this.#kept], dropped: this.#dropped };
  }
}

/** The id that a request has by its rules: one to trace it by before that of a slot. */
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
  return {
    entries: cut,
    outcome: verdict.kind,
    hits,
    rule: rule.path,
    ...placeFields(rule.place),
    limit: describeLimit({ limit, label }),
    ...(label.name !== '' && { name: label.name }),
    code,
    source: sourceOf(decision),
    arithmetic: `${hitsBefore} + ${hits} = ${hitsBefore + hits} ${isOver ? '>' : '≤'} ${capacityOf(limit)}`,
    remaining: limitRemaining,
    ...(isOver && { retryAfterMs: retryAfterMs === NEVER_MS ? null : retryAfterMs }),
    ...(policy.shadow && { shadow: true }),
  };
}

/** Those of several processes as one, the newest first. */
export function mergeRefusals(reports: readonly RefusalReport[]): RefusalReport {
  const refusals = reports.flatMap((report) => report.refusals).sort((one, other) => other.atMs - one.atMs);
  return { refusals, dropped: reports.reduce((sum, { dropped }) => sum + dropped, 0) };
}
