import type { PeerReport } from '../answers/sites.ts';
import type { MetricRow, ReadRow } from './metric.ts';
import type { SitesReport } from './site-counts.ts';
import {
  type DeciderParts,
  deciderFigures,
  partFigures,
  peerRows,
  processFigures,
  type ReportedFigures,
} from './table.ts';

type FigureValues = Readonly<Record<string, number | undefined>>;

const figureRows = { ...processFigures, ...deciderFigures, ...partFigures };

/** The figures of a process; those of a decider are 0 if it is not open. */
export function readFigures(parts?: DeciderParts): ReportedFigures {
  const ofDecider = parts
    ? { ...read(deciderFigures, parts), ...read(partFigures, parts) }
    : Object.fromEntries(Object.keys(deciderFigures).map((name) => [name, 0]));
  return { ...read(processFigures, undefined), ...ofDecider } as ReportedFigures; // each has a row
}

const read = <S>(rows: Readonly<Record<string, ReadRow<S, number | undefined>>>, source: S): FigureValues =>
  Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, row.read(source)]));

/** The figures of two processes or groups of them. */
export const addFigures = <F extends Partial<ReportedFigures>>(one: F, other: Partial<ReportedFigures>): F =>
  addUp(figureRows, one, other) as F; // it has those of the first

/** What a process that has ended leaves: its counters. */
export function keptFigures(figures: ReportedFigures): Partial<ReportedFigures> {
  const rows: Readonly<Record<string, MetricRow>> = figureRows;
  return Object.fromEntries(Object.entries(figures).filter(([name]) => rows[name]?.kind === 'counter'));
}

/** Adds the figures up as their rows say. @param other  the newer ones */
const addUp = <K extends string>(
  rows: Readonly<Record<K, MetricRow>>,
  one: Readonly<Partial<Record<K, number | undefined>>>,
  other: Readonly<Partial<Record<K, number | undefined>>>,
): FigureValues =>
  Object.fromEntries(
    Object.entries<MetricRow>(rows).map(([name, { add }]) => {
      const [a, b] = [one[name as K], other[name as K]]; // it is a key of the rows
      if (a === undefined || b === undefined || add === 'last') return [name, b ?? a];
      return [name, add === 'max' ? Math.max(a, b) : a + b];
    }),
  );

/** The exchanges of two processes with other sites. */
export const addSites = (one: SitesReport, other: SitesReport): SitesReport => ({
  peers: one.peers.map((mine) => {
    const theirs = other.peers.find(({ site }) => site === mine.site);
    return theirs ? addPeers(mine, theirs) : mine;
  }),
  ...pickWorse(one, other),
});

function addPeers(one: PeerReport, other: PeerReport): PeerReport {
  const [older, newer] = latest(one.silentMs, other.silentMs) === one.silentMs ? [other, one] : [one, other];
  return {
    ...newer,
    ...addUp<keyof typeof peerRows>(peerRows, older, newer),
    askedMsAgo: latest(one.askedMsAgo, other.askedMsAgo),
    problem: one.problem || other.problem,
  };
}

/** The shorter of two times since an event; -1: it never happened. */
const latest = (one: number, other: number): number => (other < 0 || (one >= 0 && one <= other) ? one : other);

/** Both figures of the limit that is further beyond its bound; both are 0 if a process has measured nothing. */
function pickWorse(one: SitesReport, other: SitesReport): Pick<SitesReport, 'errorRatio' | 'errorBound'> {
  const beyond = ({ errorRatio, errorBound }: SitesReport) =>
    errorRatio === 0 && errorBound === 0 ? -1 : errorRatio - errorBound;
  const { errorRatio, errorBound } = beyond(one) >= beyond(other) ? one : other;
  return { errorRatio, errorBound };
}
