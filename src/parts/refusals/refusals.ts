import { randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { placeFields } from '../../edge/listing/describe.ts';
import { type Answer, limitedBy, type Verdict } from '../../engine/decide/decide.ts';
import { BLOCK_COUNTER, describeApplied } from '../../engine/decide/overrides.ts';
import { describeWouldRefuse, wouldRefuse } from '../../engine/decide/would-refuse.ts';
import { isShared } from '../../engine/holds/limits.ts';
import { answerSource } from '../../engine/ledger/debit.ts';
import { countedBy, countedEntries, type Entry, orderedBy } from '../../engine/rules/match/match.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { passesInMs } from '../../operate/admin/shown.ts';
import { describeShare, sourceTexts, withBlock, writeSum } from '../lab/counters/counter-state.ts';
import type { RefusalPage, RefusedDescriptor, SampledRefusal } from './answers.ts';

/** The most refusals explained in a second, and bounds on the size of each. */
const MAX_A_SECOND = 100;
const MAX_ENTRIES = 16;
const MAX_TEXT_LENGTH = 256;
/** The length to which a caller's texts are cut. */
export const keptText = (text: string): string => text.slice(0, MAX_TEXT_LENGTH);

/** The most descriptors kept of one request. */
const MAX_DESCRIPTORS = 16;

/** Refused requests, or those that would have been refused. */
export const refusalKinds = ['refused', 'would_refuse'] as const;
export type RefusalKind = (typeof refusalKinds)[number];

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

const isRefused = ({ overallCode }: Answer): boolean => overallCode === 'OVER_LIMIT';
/** Whether a request passed though a limit would have refused it. */
export const wasSpared = (answer: Answer): boolean => !isRefused(answer) && wouldRefuse(answer).length > 0;

/** Keeps the last refusals, from their decisions alone, without a query to the store. */
export class RefusalSample {
  readonly #isKept: (answer: Answer) => boolean;
  readonly #max: number;
  readonly #clock: Clock;
  #kept: SampledRefusal[] = [];
  readonly #id = randomBytes(4).toString('hex');
  #total = 0;
  #inSecond = 0;
  #dropped = 0;

  /**
   * @param max     the number of refusals kept, at least 1
   * @param isKept  the answers that are kept; default: those that refuse
   */
  constructor(max: number, clock: Clock, isKept = isRefused) {
    this.#max = max;
    this.#isKept = isKept;
    this.#clock = clock;
  }

  /** To be called with each answer after it has been sent. */
  answered(domain: string, descriptors: readonly { readonly entries: readonly Entry[] }[], answer: Answer): void {
    if (!this.#isKept(answer)) return;
    if (this.#inSecond >= MAX_A_SECOND) {
      this.#dropped++;
      return;
    }
    this.#inSecond++;
    const kept = answer.verdicts
      .slice(0, MAX_DESCRIPTORS)
      .map((verdict, at) => describe(verdict, descriptors[at]?.entries ?? []));
    for (const one of limitedBy(answer.verdicts[0]).slice(1)) kept.push(describe(one, []));
    const requestId = findRequestId(descriptors, answer);
    const spared = describeWouldRefuse(answer);
    this.#kept[this.#total++ % this.#max] = {
      atMs: this.#clock(),
      domain: keptText(domain),
      ...(requestId !== undefined && { requestId: keptText(requestId) }),
      passesInMs: passesInMs(answer.retryAfterMs),
      descriptors: kept,
      ...(spared && { wouldRefuse: spared }),
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

/** The request's id under its rules; that of a trace takes precedence over that of a slot. */
function findRequestId(
  descriptors: readonly { readonly entries: readonly Entry[] }[],
  { verdicts }: Answer,
): string | undefined {
  const ids = verdicts.flatMap((verdict, at) => {
    if (!('rule' in verdict) || !verdict.rule.ids) return [];
    const entries = orderedBy(verdict.rule, descriptors[at]?.entries ?? []);
    return verdict.rule.ids.map((id) => ({ as: id.as, value: entries[id.at]?.value }));
  });
  return (ids.find(({ as }) => as === 'trace') ?? ids.find(({ as }) => as === 'hold'))?.value;
}

function describe(verdict: Verdict, entries: readonly Entry[]): RefusedDescriptor {
  const ofRule = 'rule' in verdict ? countedEntries(verdict.rule, entries) : entries;
  const counted = verdict.kind === 'limited' ? countedBy(verdict.found) : ofRule;
  const cut = counted.slice(0, MAX_ENTRIES).map(({ key, value }) => ({ key: keptText(key), value: keptText(value) }));
  if (verdict.kind !== 'limited')
    return {
      entries: cut,
      outcome: 'exempt' in verdict ? 'exempt' : verdict.kind,
      ...('rule' in verdict && { rule: verdict.rule.path }),
    };
  const { rule, limit, label, policy, decision, hits } = verdict;
  const { limitRemaining, retryAfterMs, code } = decision;
  const isOver = code === 'OVER_LIMIT';
  const source = answerSource(decision);
  const isBlock = limit.counter === BLOCK_COUNTER;
  return {
    entries: cut,
    outcome: verdict.kind,
    hits,
    rule: rule.path,
    ...placeFields(rule.place),
    limit: describeApplied(verdict),
    ...(label.name !== '' && !isBlock && { name: label.name }),
    code,
    source,
    arithmetic: isBlock
      ? 'blocked'
      : source !== 'backend'
        ? sourceTexts[source]
        : decision.share && isShared(limit)
          ? describeShare(limit, decision.share)
          : withBlock(writeSum(limit, hits, decision), decision),
    remaining: limitRemaining,
    ...(limit.currency !== undefined && { currency: limit.currency }),
    ...(isOver && !isBlock && { retryAfterMs: passesInMs(retryAfterMs) }),
    ...(policy.shadow && { shadow: true }),
    ...(policy.quota && { quota: true }),
    ...(decision.soft && { soft: true }),
  };
}

interface RefusalQuery {
  /** `next` of the previous page; undefined: the page has the newest. */
  readonly since: string | undefined;
  readonly count: number;
  readonly isChosen: (refusal: SampledRefusal) => boolean;
}

/** One kept refusal of one process. */
interface KeptRefusal {
  readonly refusal: SampledRefusal;
  readonly process: string;
  /** Its number among all that this process has kept so far, from 0. */
  readonly number: number;
  /** `atMs`, but never less than that of the previous refusal: clocks may step back. */
  readonly orderMs: number;
}

/**
 * A page of the refusals of several processes. With `since`, pages continue by the numbers of refusals in their
 * processes, so that none is left out where many have the same time. The cursor keeps the position of a process that
 * does not reply in time for a page.
 *
 * @throws ApiProblem  400: `since` is not `next` of a page
 */
export function refusalPage(reports: readonly RefusalReport[], { since, count, isChosen }: RefusalQuery): RefusalPage {
  const dropped = reports.reduce((sum, report) => sum + report.dropped, 0);
  const kept = reports.flatMap(numbered).sort((one, other) => one.orderMs - other.orderMs);
  const reached = reports.map(({ id, total, dropped }): Place => ({ process: id, number: total, dropped }));
  if (since === undefined) {
    const chosen = kept.map(({ refusal }) => refusal).filter(isChosen);
    const refusals = chosen.slice(Math.max(chosen.length - count, 0)).reverse();
    return { refusals, dropped, more: chosen.length - refusals.length, lost: 0, next: writeCursor(reached) };
  }
  const read = readCursor(since);
  const seen = new Map(reports.map(({ id }) => [id, read.get(id)?.number ?? 0]));
  const lost = reports.reduce(
    (sum, report) => sum + Math.max(firstNumber(report) - (read.get(report.id)?.number ?? firstNumber(report)), 0),
    0,
  );
  const chosen = kept.filter(({ process, number, refusal }) => number >= (seen.get(process) ?? 0) && isChosen(refusal));
  const page = chosen.slice(0, count);
  const more = chosen.length - page.length;
  for (const { process, number } of page) seen.set(process, number + 1);
  const places =
    more === 0
      ? reached
      : reports.map(
          (report): Place => ({
            process: report.id,
            number: Math.max(seen.get(report.id) ?? 0, firstNumber(report)),
            dropped: report.dropped,
          }),
        );
  const absent = [...read.values()].filter(({ process }) => !seen.has(process)).slice(0, MAX_ABSENT);
  return {
    refusals: page.map(({ refusal }) => refusal).reverse(),
    dropped,
    droppedSince: droppedSince(reports, read),
    more,
    lost,
    next: writeCursor([...places, ...absent]),
  };
}

/** Processes that a cursor keeps though they did not reply, most recent first: after a restart they never will. */
const MAX_ABSENT = 32;

const droppedSince = (reports: readonly RefusalReport[], read: ReadonlyMap<string, Place>): number =>
  reports.reduce((sum, { id, dropped }) => sum + Math.max(dropped - (read.get(id)?.dropped ?? dropped), 0), 0);

const firstNumber = ({ total, refusals }: RefusalReport): number => total - refusals.length;

function numbered(report: RefusalReport): readonly KeptRefusal[] {
  let orderMs = Number.NEGATIVE_INFINITY;
  return report.refusals.map((refusal, at) => {
    orderMs = Math.max(orderMs, refusal.atMs);
    return { refusal, process: report.id, number: firstNumber(report) + at, orderMs };
  });
}

/** How far one process has been read. */
interface Place {
  readonly process: string;
  /** The number of the first refusal on the next page. */
  readonly number: number;
  /** Refusals that the process did not keep. */
  readonly dropped: number;
}

const writeCursor = (places: readonly Place[]): string =>
  places.map(({ process, number, dropped }) => `${process}:${number}:${dropped}`).join(',');

function readCursor(cursor: string): ReadonlyMap<string, Place> {
  if (!/^(\w+:\d{1,15}:\d{1,15}(,|$))+$/.test(cursor))
    throw new ApiProblem(400, 'the query is not valid: since must be the `next` of a previous page');
  return new Map(
    cursor.split(',').map((one): [string, Place] => {
      const [process = '', number, dropped] = one.split(':');
      return [process, { process, number: Number(number), dropped: Number(dropped) }];
    }),
  );
}
