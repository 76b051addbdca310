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
