import type { PeerReport, SiteList } from './shapes.ts';

type Counted = Omit<PeerReport, 'site' | 'silentMs' | 'askedMsAgo'>;

/** The exchanges of a process with one other site. */
export interface PeerCounts extends Mutable<Counted> {
  /** When the last call from that site was answered here, on the monotonic clock; 0: none was. */
  askedAtMs: number;
  /** The end of the last answered call, on the monotonic clock; 0: there was none. */
  answeredAtMs: number;
  /** Time of the last failed call on the monotonic clock; 0 without one. */
  failedAtMs: number;
}
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export const noPeerCounts = (): PeerCounts => ({
  exchanges: 0,
  failures: 0,
  failing: 0,
  borrowed: 0,
  untimely: 0,
  asked: 0,
  roundTripMs: 0,
  askedAtMs: 0,
  answeredAtMs: 0,
  failedAtMs: 0,
  problem: '',
});

/** Time for which an exchange is recent; sites that have to exchange do so twice a second. */
const RECENT_MS = 10_000;

const isRecent = (agoMs: number): boolean => agoMs >= 0 && agoMs < RECENT_MS;

export const exchangeState = ({ failing, silentMs, askedMsAgo }: PeerReport): SiteList['peers'][number]['state'] =>
  failing > 0 ? 'cut_off' : isRecent(silentMs) || isRecent(askedMsAgo) ? 'in_step' : 'idle';

/** The exchange with other sites as operators see it. */
export interface SitesReport extends Pick<SiteList, 'errorRatio' | 'errorBound'> {
  readonly peers: readonly PeerReport[];
}

/** Merges the reports of several processes. */
export const sumSites = (one: SitesReport, other: SitesReport): SitesReport => ({
  peers: sumPeers(one.peers, other.peers),
  ...worse(one, other),
});

/** Both figures of the limit that is further beyond its bound, or 0 if a process has measured nothing. */
function worse(one: SitesReport, other: SitesReport): Pick<SitesReport, 'errorRatio' | 'errorBound'> {
  const beyond = ({ errorRatio, errorBound }: SitesReport) =>
    errorRatio === 0 && errorBound === 0 ? -1 : errorRatio - errorBound;
  const { errorRatio, errorBound } = beyond(one) >= beyond(other) ? one : other;
  return { errorRatio, errorBound };
}

/** Merges the counts of several processes, with the times of the process that was answered last. */
function sumPeers(one: readonly PeerReport[], other: readonly PeerReport[]): readonly PeerReport[] {
  return one.map((mine) => {
    const theirs = other.find(({ site }) => site === mine.site);
    if (!theirs) return mine;
    const newer = latest(mine.silentMs, theirs.silentMs) === mine.silentMs ? mine : theirs;
    return {
      ...newer,
      asked: mine.asked + theirs.asked,
      askedMsAgo: latest(mine.askedMsAgo, theirs.askedMsAgo),
      exchanges: mine.exchanges + theirs.exchanges,
      failures: mine.failures + theirs.failures,
      borrowed: mine.borrowed + theirs.borrowed,
      untimely: mine.untimely + theirs.untimely,
      failing: Math.max(mine.failing, theirs.failing),
      problem: mine.problem || theirs.problem,
    };
  });
}

/** The shorter of two times since an event, where -1 is never. */
const latest = (one: number, other: number): number => (other < 0 || (one >= 0 && one <= other) ? one : other);
