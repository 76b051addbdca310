import { monotonicMs } from '../clock.ts';
import { createSeldomLog } from '../observe/seldom-log.ts';
import type { Settings } from '../settings.ts';
import { Borrower, type Peer, reportOfPeer } from '../sites/borrower.ts';
import { borrowingLedger, type DecidingLedger } from '../sites/borrowing-ledger.ts';
import { openSiteChannel, type SiteChannel, startSiteServer } from '../sites/channel.ts';
import { Lender } from '../sites/lender.ts';
import { LowCounters } from '../sites/low-counters.ts';
import { MeasuredError } from '../sites/measured-error.ts';
import { createOwnLimits } from '../sites/own-limits.ts';
import { reportShared, type SharedReport } from '../sites/shared-counters.ts';
import { noPeerCounts, type SitesReport } from '../sites/site-counts.ts';
import { openParts, type Part, start } from '../start-up.ts';
import type { ProcessContext } from './context.ts';
import type { Core } from './core.ts';

type SiteSettings = NonNullable<Settings['sites']>;

/** The exchange with other sites. */
export interface OpenSites extends Part {
  /** The same ledger; what runs low in it is asked for. */
  readonly ledger: DecidingLedger;
  report(): SitesReport;
  /** So many of the counters that were exchanged of late. */
  shared(count: number): Promise<SharedReport>;
}

/** Counters are listed for so long after another site asked for them. */
const SHARED_MS = 10_000;

/** No request waits for an exchange. */
const MIN_TIMEOUT_MS = 1_000;

/** Opens the server for other sites, and the connections to them. @throws CannotStart */
export function openSites(
  { name, names, peers: others, lost, address, tls }: SiteSettings,
  { keys, timeoutMs }: Settings['counters'],
  { store: { ledger }, rules }: Pick<Core, 'store' | 'rules'>,
  { clock, log }: ProcessContext,
): Promise<OpenSites> {
  return openParts(async (add) => {
    if (!tls)
      log.warn(
        'SITE_TLS_CERT is not set: sites exchange in plain text, and any client that reaches SITE_PORT can move hits',
      );
    const logSeldom = createSeldomLog(monotonicMs);
    const channels = await start('SITE_TLS_*', 'cannot be used', async () =>
      others.map(({ address: to }): SiteChannel => add(openSiteChannel(to, tls, clock))),
    );
    const peers = others.map(({ site }, at): Peer => {
      const channel = channels[at];
      if (!channel) throw new TypeError(`no channel to ${site}`); // each has one
      return { site, place: names.indexOf(site), counts: noPeerCounts(), borrow: channel.borrow };
    });
    const common = { ledger, timeoutMs: Math.max(timeoutMs, MIN_TIMEOUT_MS), monotonicMs, prefix: keys.prefix, peers };
    const lender = new Lender({ ...common, sites: names, lost, limits: createOwnLimits(rules.book.rules) });
    add(
      await start('SITE_PORT', `cannot listen on ${address.host}:${address.port}`, () =>
        startSiteServer(address, tls, lender),
      ),
    );
    const onFailure = ({ site }: Peer, reason: string): void =>
      logSeldom(site, () => log.error(`no exchange with site ${site}: ${reason}; not logged again for a minute`));
    const low = new LowCounters(monotonicMs);
    const error = new MeasuredError(monotonicMs);
    const borrower = new Borrower({ ...common, site: name, sites: names, error, onFailure });
    const borrowing = add(borrowingLedger(ledger, low, borrower));
    return {
      ledger: borrowing.ledger,
      report: () => {
        const nowMs = monotonicMs();
        return {
          peers: peers.map((peer) => reportOfPeer(peer, nowMs)),
          errorRatio: error.ratio,
          errorBound: error.bound,
        };
      },
      shared: (count) =>
        reportShared(
          { ...common, counters: () => [...low.all(), ...lender.askedSince(monotonicMs() - SHARED_MS)] },
          count,
        ),
    };
  });
}
