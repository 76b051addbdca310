import type { Operation } from '../backends/backend.ts';
import { intermittent } from '../intermittent.ts';
import { after } from '../later.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Settings } from '../settings.ts';
import { Borrower, EXCHANGE_INTERVAL_MS, type Peer } from '../sites/borrower.ts';
import { openSiteChannel, type SiteChannel, startSiteServer } from '../sites/channel.ts';
import { Lender } from '../sites/lender.ts';
import { LowCounters } from '../sites/low-counters.ts';
import { MeasuredError } from '../sites/measured-error.ts';
import { createOwnLimits } from '../sites/own-limits.ts';
import { noPeerCounts, type PeerReport, type SitesReport } from '../sites/site-counts.ts';
import { start } from './cannot-start.ts';
import type { Core } from './core.ts';
import { openParts, type Part, type ProcessContext } from './parts.ts';
import { createSeldomLog } from './seldom-log.ts';

type SiteSettings = NonNullable<Settings['sites']>;

/** The exchange with other sites. */
export interface OpenSites extends Part {
  /** The same ledger; what runs low in it is asked for. */
  readonly ledger: Pick<Ledger, 'debit' | 'refund' | 'atomic'>;
  report(): SitesReport;
}

const monotonicMs = (): number => performance.now();

/** Opens the server for other sites, and the connections to them. @throws CannotStart */
export function openSites(
  { name, names, peers: others, address, tls }: SiteSettings,
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
    const lender = new Lender({ ...common, sites: names, limits: createOwnLimits(rules.book.rules) });
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
    const watch = add(watchLow(ledger, low, borrower));
    return {
      ledger: watch.ledger,
      report: () => ({ peers: peers.map(reportOf), errorRatio: error.ratio, errorBound: error.bound }),
    };
  });
}

/** Where nothing has been asked for so long, nothing is needed. */
const FAILING_MS = 30_000;

/** No request waits for an exchange. */
const MIN_TIMEOUT_MS = 1_000;

/** Exchanges while counters are low; otherwise nothing runs. */
function watchLow(ledger: Pick<Ledger, 'debit' | 'refund' | 'atomic'>, low: LowCounters, borrower: Borrower) {
  let running: Promise<void> | undefined;
  const exchanges = intermittent(EXCHANGE_INTERVAL_MS, () => {
    const counters = low.all();
    running ??= borrower.exchange(counters).finally(() => {
      running = undefined;
    });
    return counters.length > 0;
  });
  const watched: OpenSites['ledger'] = {
    debit(request, how) {
      const entries = ledger.debit(request, how);
      if (!request.some(isShared)) return entries;
      return after(entries, (all) => {
        for (const [at, debit] of request.entries()) if (low.note(debit, all[at])) exchanges.wake();
        return all;
      });
    },
    refund: (receipt) => ledger.refund(receipt),
    atomic: ledger.atomic,
  };
  return {
    ledger: watched,
    async close() {
      exchanges.close();
      await running;
      await borrower.ended();
    },
  };
}

const isShared = ({ limit }: Pick<Operation, 'limit'>): boolean => limit.algorithm === 'site_share';

function reportOf({ site, counts }: Peer): PeerReport {
  const { answeredAtMs, failedAtMs, ...rest } = counts;
  const nowMs = monotonicMs();
  return {
    ...{ site, ...rest },
    failing: nowMs - failedAtMs < FAILING_MS ? counts.failing : 0,
    silentMs: answeredAtMs === 0 ? -1 : Math.round(nowMs - answeredAtMs),
  };
}
