import { ApiProblem } from './problem.ts';
import type { RefusalReport, SampledRefusal } from './refusals.ts';

/** A page of the refusals that processes keep. */
export interface RefusalPage {
  /** The newest first. */
  readonly refusals: readonly SampledRefusal[];
  /** Refusals that were not kept, since there were too many in a second. */
  readonly dropped: number;
  /** The part of `dropped` after `since`, in processes that it names; absent without `since`. */
  readonly droppedSince?: number;
  /** Kept refusals beyond `count`: older ones without `since`; else newer ones, which are on the next page. */
  readonly more: number;
  /** Refusals after `since` that newer ones replaced before they were read. */
  readonly lost: number;
  /** `since` of the next page. */
  readonly next: string;
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
    return { refusals, dropped, more: chosen.length - refusals.length, lost: 0, next: cursorOf(reached) };
  }
  const read = readCursor(since);
  const seen = new Map(reports.map(({ id }) => [id, read.get(id)?.number ?? 0]));
  const lost = reports.reduce(
    (sum, report) => sum + Math.max(firstOf(report) - (read.get(report.id)?.number ?? firstOf(report)), 0),
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
            number: Math.max(seen.get(report.id) ?? 0, firstOf(report)),
            dropped: report.dropped,
          }),
        );
  const absent = [...read.values()].filter(({ process }) => !seen.has(process)).slice(0, MAX_ABSENT);
  return {
    refusals: page.map(({ refusal }) => refusal).reverse(),
    ...{ dropped, droppedSince: droppedSince(reports, read), more, lost },
    next: cursorOf([...places, ...absent]),
  };
}

/** Processes that a cursor keeps though they did not reply, most recent first: after a restart they never will. */
const MAX_ABSENT = 32;

const droppedSince = (reports: readonly RefusalReport[], read: ReadonlyMap<string, Place>): number =>
  reports.reduce((sum, { id, dropped }) => sum + Math.max(dropped - (read.get(id)?.dropped ?? dropped), 0), 0);

const firstOf = ({ total, refusals }: RefusalReport): number => total - refusals.length;

function numbered(report: RefusalReport): readonly KeptRefusal[] {
  let orderMs = Number.NEGATIVE_INFINITY;
  return report.refusals.map((refusal, at) => {
    orderMs = Math.max(orderMs, refusal.atMs);
    return { refusal, process: report.id, number: firstOf(report) + at, orderMs };
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

const cursorOf = (places: readonly Place[]): string =>
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
