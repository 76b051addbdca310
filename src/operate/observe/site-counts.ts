import type { PeerReport, SiteList } from '../answers/sites.ts';

/** The exchanges of a process with one other site, counted as in `PeerReport`; times are on the monotonic clock. */
export type PeerCounts = ReturnType<typeof noPeerCounts>;

export const noPeerCounts = () => ({
  exchanges: 0,
  failures: 0,
  failing: 0,
  borrowed: 0,
  untimely: 0,
  asked: 0,
  roundTripMs: 0,
  problem: '',
  /** Time of the last call from that site that was answered here; 0 without one. */
  askedAtMs: 0,
  /** Time of the last answer from that site; 0 without one. */
  answeredAtMs: 0,
  /** Time of the last failed call; 0 without one. */
  failedAtMs: 0,
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
