import { monotonicMs } from '../../base/clock.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { findCounter } from '../../engine/decide/counter-key.ts';
import { noPeerCounts, type SitesReport } from '../../operate/observe/site-counts.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { at } from '../../serve/parts/http.ts';
import { openParts, start } from '../../serve/parts/start-up.ts';
import { openTls } from '../../serve/parts/tls.ts';
import type { Settings } from '../../settings/settings.ts';
import { Borrower, borrowingLedger, type Peer, peerReport } from './borrower.ts';
import { openSiteChannel, startSiteServer } from './channel.ts';
import { createOwnLimits, Lender } from './lender.ts';
import { LowCounters } from './low-counters.ts';
import { createMeasuredError } from './measured-error.ts';
import { reportShared, type SharedQuestion, type SharedReport } from './shared-counters.ts';

type SiteSettings = NonNullable<Settings['sites']>;

/** How long counters are listed after another site requested hits of them. */
const SHARED_MS = 10_000;

/** The shortest timeout of the store for exchanges: no request waits for them. */
const MIN_TIMEOUT_MS = 1_000;

/** Opens the server for other sites, and the connections to them. @throws CannotStart */
export const openSites =
  ({ name, names, peers: others, lost, address, tls }: SiteSettings): OpenDeciderPart =>
  ({ core }, { counters }, context) => {
    const { ledger } = core.store;
    const { clock, log, background } = context;
    return openParts(async (add) => {
      if (!tls)
        log.warn(
          'SITE_TLS_CERT is not set: sites exchange in plain text, and any client that reaches SITE_PORT can move hits',
        );
      const certificates = tls && add(await openTls('SITE_TLS_CERT', { ...tls, clientCa: tls.ca }, context));
      const peers = others.map(({ site, address: to }): Peer => {
        const { borrow } = add(openSiteChannel(to, certificates, clock));
        return { site, place: names.indexOf(site), counts: noPeerCounts(), borrow };
      });
      const common = {
        ledger,
        timeoutMs: Math.max(counters.storeTimeoutMs ?? 0, MIN_TIMEOUT_MS),
        monotonicMs,
        prefix: counters.keys.prefix,
        peers,
      };
      const lender = new Lender({ ...common, sites: names, lost, limits: createOwnLimits(core.rules.book.rules) });
      add(
        await start('SITE_PORT', `cannot listen on ${at(address)}`, () =>
          startSiteServer(address, certificates, lender),
        ),
      );
      const states = others.map(({ site }) => background.add('sites', `exchanging hits with site ${site}`));
      const low = new LowCounters(monotonicMs);
      const error = createMeasuredError(monotonicMs);
      const borrower = new Borrower({ ...common, site: name, sites: names, error });
      const borrowing = add(borrowingLedger(ledger, low, borrower));
      return {
        /** The ledger, which borrows hits for counters that run low. */
        ledger: borrowing.ledger,
        sites(): SitesReport {
          const nowMs = monotonicMs();
          const reports = peers.map((peer) => peerReport(peer, nowMs));
          for (const [at, { failing, problem }] of reports.entries())
            if (failing > 0) states[at]?.failed(problem);
            else states[at]?.works();
          return { peers: reports, errorRatio: error.ratio, errorBound: error.bound };
        },
        /** At most `count` of the counters that were exchanged recently, of these domains if they are given. */
        asked({ count, domains }: SharedQuestion): Promise<SharedReport> {
          const tree = core.decider.rules();
          const isOf = ({ key }: { readonly key: CounterKey }): boolean =>
            !domains || (tree !== undefined && domains.includes(findCounter(tree, key, core.decider)?.domain ?? ''));
          const recent = () => [...low.all(), ...lender.askedSince(monotonicMs() - SHARED_MS)];
          return reportShared({ ...common, counters: () => recent().filter(isOf) }, count);
        },
      };
    });
  };
