/** What a process has exchanged with one other site. */
export interface PeerCounts {
  /** Calls that were answered, and calls that were not. */
  exchanges: number;
  failures: number;
  /** Calls in a row that were not answered. */
  failing: number;
  /** Hits that were taken from it. */
  borrowed: number;
  /** Loans that came too late, or from a site whose clock is too far from this one's. */
  untimely: number;
  /** Calls of that site that were answered here, and when the last one came, on the monotonic clock; 0: none did. */
  asked: number;
  askedAtMs: number;
  /** How long the last answered call took, and when it ended, on the monotonic clock; 0: there was none. */
  roundTripMs: number;
  answeredAtMs: number;
  /** When the last call was given up; 0: none was. */
  failedAtMs: number;
  /** Why the last call was not answered; empty where it was. */
  problem: string;
}

export const noPeerCounts = (): PeerCounts => ({
  ...{ exchanges: 0, failures: 0, failing: 0, borrowed: 0, untimely: 0, asked: 0, roundTripMs: 0 },
  ...{ askedAtMs: 0, answeredAtMs: 0, failedAtMs: 0, problem: '' },
});

/** The same for operators. */
export interface PeerReport extends Omit<PeerCounts, 'askedAtMs' | 'answeredAtMs' | 'failedAtMs'> {
  readonly site: string;
  /** Since the last call that was answered; -1: there was none. */
  readonly silentMs: number;
  /** Since the last call of that site; -1: there was none. */
  readonly askedMsAgo: number;
}

/** How it stands with another site. `idle`: nothing has been exchanged of late, since nothing was needed. */
export type ExchangeState = 'in_step' | 'cut_off' | 'idle';

/** Sites that exchange do so twice a second. */
const RECENT_MS = 10_000;

const isRecent = (agoMs: number): boolean => agoMs >= 0 && agoMs < RECENT_MS;

export const exchangeStateOf = ({ failing, silentMs, askedMsAgo }: PeerReport): ExchangeState =>
  failing > 0 ? 'cut_off' : isRecent(silentMs) || isRecent(askedMsAgo) ? 'in_step' : 'idle';

/** What operators see of the exchange with other sites. */
export interface SitesReport {
  readonly peers: readonly PeerReport[];
  /** By how much the limit that is furthest beyond its bound was exceeded in the last minute, as a part of it. */
  readonly errorRatio: number;
  /** What the rule of that limit declares. */
  readonly errorBound: number;
}

/** Of several processes. */
export const sumOfSites = (one: SitesReport, other: SitesReport): SitesReport => ({
  peers: sumOfPeers(one.peers, other.peers),
  ...worseOf(one, other),
});

/** Both figures of one limit, that which is further beyond its bound; both 0 where a process has measured nothing. */
function worseOf(one: SitesReport, other: SitesReport): Pick<SitesReport, 'errorRatio' | 'errorBound'> {
  const beyond = ({ errorRatio, errorBound }: SitesReport) =>
    errorRatio === 0 && errorBound === 0 ? -1 : errorRatio - errorBound;
  const { errorRatio, errorBound } = beyond(one) >= beyond(other) ? one : other;
  return { errorRatio, errorBound };
}

/** Of several processes; of the times, those of the process that was answered last. */
function sumOfPeers(one: readonly PeerReport[], other: readonly PeerReport[]): readonly PeerReport[] {
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

/** The shorter of two times since something; -1: it never was. */
const latest = (one: number, other: number): number => (other < 0 || (one >= 0 && one <= other) ? one : other);
