import { inOnePiece } from '../../engine/backends/key.ts';
import { type Limit, type NamedAlgorithm, namedAlgorithm } from '../../engine/holds/limits.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { cutName, NameBudget, OTHER } from './caller-names.ts';
import type { MetricRow } from './metric.ts';
import { asStatisticName } from './statistic-name.ts';
import { type adaptRows, holdRows, reservationRows, ruleRows } from './table.ts';

/** What is counted for rows of a table: sums; for gauges the largest value of the last minute, or the last one. */
export type Cells<R> = {
  -readonly [K in keyof R]: R[K] extends { readonly kind: 'gauge'; readonly add?: never } ? RecentMaximum : number;
};

/** The numbers of cells. */
type CellValues<R> = { readonly [K in keyof R]: number };

type Rows = Readonly<Record<string, MetricRow>>;

function newCells<R extends Rows>(rows: R): Cells<R> {
  const cells = Object.entries(rows).map(([name, { kind }]) => [name, kind === 'gauge' ? new RecentMaximum() : 0]);
  return Object.fromEntries(cells) as Cells<R>; // it has a cell for each row
}

function readCells<R extends Rows>(rows: R, cells: Cells<R>): CellValues<R> {
  const numbers = Object.keys(rows).map((name) => [name, readCell(cells[name as keyof R])]); // it is a key of that table
  return Object.fromEntries(numbers) as CellValues<R>; // it has a number for each row
}

export const readCell = (cell: number | RecentMaximum): number => (typeof cell === 'number' ? cell : cell.value);

/** Adds the numbers of another process. */
function addTo<R extends Rows>(rows: R, cells: Cells<R>, numbers: CellValues<R>): void {
  const open: Record<keyof R, number | RecentMaximum> = cells;
  for (const name in rows) {
    const cell = open[name];
    if (typeof cell === 'number') open[name] = cell + numbers[name];
    else cell.note(numbers[name]);
  }
}

/** The hits of one rule by outcome. */
export interface RuleCounts extends Cells<typeof ruleRows> {
  readonly domain: string;
  /** Names of the levels below the domain. */
  readonly levels: readonly string[];
  /** The levels' names, joined with dots. */
  readonly rule: string;
  readonly algorithm: NamedAlgorithm;
  readonly named: Rule['named'];
  /** Domain and levels as part of a statistic's name; not unique. */
  readonly key: string;
  /** For limits on requests in flight; absent: none was seen. */
  holds?: HoldCounts;
  /** For limits with reservations; absent: none was seen. */
  reservations?: Cells<typeof reservationRows>;
  /** For limits that adapt; absent: none was seen. */
  adapted?: CellValues<typeof adaptRows>;
}

/** A rule's slots in flight. */
interface HoldCounts extends Cells<typeof holdRows> {
  /** The highest values since they were last taken. */
  peaks: HoldPeaks;
}

interface HoldPeaks {
  readonly held: number;
  readonly oldestMs: number;
}

const NO_PEAKS: HoldPeaks = { held: 0, oldestMs: 0 };

/** Returns the peaks since the last call, and resets them. */
export function takePeaks(holds: HoldCounts): HoldPeaks {
  const { peaks } = holds;
  holds.peaks = NO_PEAKS;
  return peaks;
}

/** The counts of one rule, as sent to another process. */
export interface CountedRule
  extends CellValues<typeof ruleRows>,
    Pick<RuleCounts, 'domain' | 'levels' | 'algorithm' | 'named'> {
  readonly holds?: CellValues<typeof holdRows>;
  readonly reservations?: CellValues<typeof reservationRows>;
  readonly adapted?: CellValues<typeof adaptRows>;
}

export function countedRule(counts: RuleCounts): CountedRule {
  const { domain, levels, algorithm, named, holds, reservations, adapted } = counts;
  return {
    domain,
    levels,
    algorithm,
    named,
    ...readCells(ruleRows, counts),
    ...(holds && { holds: readCells(holdRows, holds) }),
    ...(reservations && { reservations: readCells(reservationRows, reservations) }),
    ...(adapted && { adapted }),
  };
}

/** Adds the counts of another process. */
export function addRule(ours: RuleCounts, theirs: CountedRule): void {
  addTo(ruleRows, ours, theirs);
  if (theirs.holds) noteHolds(ours, theirs.holds);
  if (theirs.reservations) noteReservations(ours, theirs.reservations);
  if (theirs.adapted) ours.adapted = theirs.adapted;
}

/** A rule, with the names of its levels for one request. */
type Found = { readonly rule: Rule; readonly levels: readonly string[] };

/**
 * The counts of rules, by name and algorithm. Rules whose names do not depend on requests always have their own counts.
 *
 * @param maxNameBytes  limit for names that contain callers' texts
 */
export function createRuleCounts(maxNameBytes: number) {
  const known = new Map<string, RuleCounts>();
  /** Of rules whose names do not depend on requests, with their levels: rules may share the limit of an override. */
  const byLimit = new WeakMap<Limit, { readonly levels: readonly string[]; readonly counts: RuleCounts }>();
  const others = newCounts(OTHER, [OTHER], 'fixed_window', 'by_request');
  const budget = new NameBudget(maxNameBytes);
  const byName = (
    domain: string,
    written: readonly string[],
    algorithm: NamedAlgorithm,
    named: Rule['named'],
  ): RuleCounts => {
    const levels = named === 'by_rule' ? written : cutName(written);
    const path = levels.join('.');
    // even if sent by another process: a page may contain a series only once
    if (domain === OTHER && path === OTHER) return others;
    const name = `${algorithm} ${domain.length}:${domain}.${path}`; // a dot in a domain could make two paths equal
    const counts = known.get(name);
    if (counts) return counts;
    if (named !== 'by_rule' && !budget.take(levels)) return others;
    const fresh = newCounts(domain, levels.map(inOnePiece), algorithm, named);
    known.set(inOnePiece(name), fresh);
    return fresh;
  };
  return {
    of: byName,
    ofLimit(domain: string, { rule, levels }: Found, limit: Limit): RuleCounts {
      const known = byLimit.get(limit);
      if (known?.levels === levels) return known.counts;
      const counts = byName(domain, levels, namedAlgorithm(limit), rule.named);
      if (rule.named === 'by_rule') byLimit.set(limit, { levels, counts });
      return counts;
    },
    /** Undefined: the limit was not counted yet, or its name depends on requests. */
    find: (limit: Limit): RuleCounts | undefined => byLimit.get(limit)?.counts,
    /** A snapshot: rules counted later are not in the list. */
    all: (): readonly RuleCounts[] => [...known.values(), ...(others.totalHits > 0 ? [others] : [])],
  };
}

/** Records the slots that were seen in flight. */
export function noteHolds(counts: RuleCounts, seen: CellValues<typeof holdRows>): void {
  counts.holds ??= { ...newCells(holdRows), peaks: NO_PEAKS };
  const { holds } = counts;
  addTo(holdRows, holds, seen);
  const { held, oldestMs } = seen;
  const { peaks } = holds;
  if (held > peaks.held || oldestMs > peaks.oldestMs)
    holds.peaks = { held: Math.max(held, peaks.held), oldestMs: Math.max(oldestMs, peaks.oldestMs) };
}

/** Adds the outcomes of reservations. */
export function noteReservations(counts: RuleCounts, outcomes: CellValues<typeof reservationRows>): void {
  counts.reservations ??= newCells(reservationRows);
  addTo(reservationRows, counts.reservations, outcomes);
}

function newCounts(
  domain: string,
  levels: readonly string[],
  algorithm: NamedAlgorithm,
  named: Rule['named'],
): RuleCounts {
  const rule = levels.join('.');
  const key = inOnePiece(asStatisticName(`${domain}.${rule}`));
  return { domain, levels, rule, algorithm, named, key, ...newCells(ruleRows) };
}

/** The time that one slot covers. */
const SLOT_MS = 15_000;
/** The number of slots that the last minute spans. */
const SLOTS = 5;

/** The current slot, since the start of the process. A timer advances it, so that noting reads no clock. */
let slot = 0;
let isTicking = false;

/** The largest value of the last 60 to 75 seconds. */
export class RecentMaximum {
  #largest: number[] | undefined;
  #slot = 0;

  note(value: number): void {
    if (value <= 0) return;
    if (!isTicking) startTicking();
    this.#largest ??= new Array<number>(SLOTS).fill(0);
    if (this.#slot !== slot) this.#advance(this.#largest);
    const at = slot % SLOTS;
    if (value > (this.#largest[at] ?? 0)) this.#largest[at] = value;
  }

  /** 0: there was none. */
  get value(): number {
    if (!this.#largest) return 0;
    if (this.#slot !== slot) this.#advance(this.#largest);
    return Math.max(...this.#largest);
  }

  #advance(largest: number[]): void {
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) largest[next % SLOTS] = 0;
    this.#slot = slot;
  }
}

function startTicking(): void {
  isTicking = true;
  setInterval(() => slot++, SLOT_MS).unref();
}
