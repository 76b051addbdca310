/** The exchanges of a process with one other site. */
export interface PeerCounts {
  /** Calls that were answered, and calls that were not. */
  exchanges: number;
  failures: number;
  /** Calls in a row that were not answered. */
  failing: number;
  /** Hits that were borrowed from it. */
  borrowed: number;
  /** Loans that came too late, or from a site whose clock differs too much from this one's. */
  untimely: number;
  /** Calls from that site that were answered here, and the time of the last, on the monotonic clock; 0: none was. */
  asked: number;
  askedAtMs: number;
  /** The duration of the last answered call, and its end, on the monotonic clock; 0: there was none. */
  roundTripMs: number;
  answeredAtMs: number;
  /** When the last call failed, on the monotonic clock; 0: none did. */
  failedAtMs: number;
  /** Why the last call failed; empty if it did not. */
  problem: string;
}

export const noPeerCounts = (): PeerCounts => ({
  ...{ exchanges: 0, failures: 0, failing: 0, borrowed: 0, untimely: 0, asked: 0, roundTripMs: 0 },
  ...{ askedAtMs: 0, answeredAtMs: 0, failedAtMs: 0, problem: '' },
});

/** The counts as operators see them. */
export interface PeerReport extends Omit<PeerCounts, 'askedAtMs' | 'answeredAtMs' | 'failedAtMs'> {
  readonly site: string;
  /** The time since the last answered call; -1: there was none. */
  readonly silentMs: number;
  /** The time since the last call from that site; -1: there was none. */
  readonly askedMsAgo: number;
}

/** The state of the exchange with another site. `idle`: nothing was exchanged recently, since nothing was needed. */
export type ExchangeState = 'in_step' | 'cut_off' | 'idle';

/** Sites that have to exchange do so twice a second. */
const RECENT_MS = 10_000;

const isRecent = (agoMs: number): boolean => agoMs >= 0 && agoMs < RECENT_MS;

export const exchangeStateOf = ({ failing, silentMs, askedMsAgo }: PeerReport): ExchangeState =>
  failing > 0 ? 'cut_off' : isRecent(silentMs) || isRecent(askedMsAgo) ? 'in_step' : 'idle';

/** The exchange with other sites as operators see it. */
export interface SitesReport {
  readonly peers: readonly PeerReport[];
  /** The excess over the limit that was furthest beyond its bound in the last minute, as a fraction of the limit. */
  readonly errorRatio: number;
  /** The bound that the rule of that limit declares. */
  readonly errorBound: number;
}

/** Merges the reports of several processes. */
export const sumOfSites = (one: SitesReport, other: SitesReport): SitesReport => ({
  peers: sumOfPeers(one.peers, other.peers),
  ...worseOf(one, other),
});

/** Both figures of the limit that is further beyond its bound; both are 0 if a process has measured nothing. */
function worseOf(one: SitesReport, other: SitesReport): Pick<SitesReport, 'errorRatio' | 'errorBound'> {
  const beyond = ({ errorRatio, errorBound }: SitesReport) =>
    errorRatio === 0 && errorBound === 0 ? -1 : errorRatio - errorBound;
  const { errorRatio, errorBound } = beyond(one) >= beyond(other) ? one : other;
  return { errorRatio, errorBound };
}

/** Merges the counts of several processes; takes the times of the process that was answered last. */
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

/** The shorter of two times since an event; -1: it never happened. */
const latest = (one: number, other: number): number => (other < 0 || (one >= 0 && one <= other) ? one : other);
