import type { Decider } from '../decide.ts';
import { type ExchangeState, exchangeStateOf, type PeerReport, type SitesReport } from '../sites/site-counts.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { noQuery, pageSize } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';
import { listShares } from './site-limits.ts';

/** The sites that share limits. */
export interface SiteOperationsOptions extends Pick<AdminOptions, 'ask' | 'rules' | 'hashKeys'> {
  readonly decider: Pick<Decider, 'clock' | 'counters'>;
  /** Undefined: this is the only site. */
  readonly sites:
    | { readonly name: string; readonly names: readonly string[]; readonly lost: readonly string[] }
    | undefined;
  /** The exchange with the others, by all processes of this instance. */
  readonly report: () => SitesReport | undefined;
}

/** State of the exchange with the other sites: the answer of `GET /api/v1/sites`. */
export interface SiteList extends Omit<SitesReport, 'peers'> {
  /** This site, and all of them in the order of their names. */
  readonly site: string;
  readonly sites: readonly string[];
  /** Those whose parts the others divide: SITE_LOST. */
  readonly lost: readonly string[];
  readonly peers: readonly (PeerReport & { readonly state: ExchangeState })[];
}

const MAX_LIMITS = 500;
const DEFAULT_LIMITS = 50;

/** Operations that show the exchange with other sites, and the share of each in the limits that they share. */
export function siteOperations({ sites, report, ...options }: SiteOperationsOptions): readonly ApiOperation[] {
  const known = () => {
    if (!sites) throw new ApiProblem(404, 'this is the only site: SITE is not set');
    return sites;
  };
  return [
    operation({
      path: '/api/v1/sites',
      method: 'GET',
      summary: 'the sites that share limits, and the exchanges of this instance with each',
      need: 'open',
      query: noQuery,
      answers:
        'Exchanges since the start, hits that were borrowed, and the time since the last answer in milliseconds; -1: there was none. `state` is in_step, cut_off, or idle: nothing was exchanged in the last ten seconds. errorRatio is the most by which a limit was exceeded in the last minute, errorBound what its rule declares.',
      answer: (): SiteList => {
        const { name, names, lost } = known();
        const { peers, errorRatio, errorBound } = report() ?? NOTHING;
        return {
          ...{ site: name, sites: names, lost, errorRatio, errorBound },
          peers: peers.map((peer) => ({ ...peer, state: exchangeStateOf(peer) })),
        };
      },
    }),
    operation({
      path: '/api/v1/sites/limits',
      method: 'GET',
      summary: 'what each site has and uses of the shared limits that this instance exchanged in the last ten seconds',
      need: 'read',
      query: object({ count: pageSize(MAX_LIMITS) }, []),
      answers:
        'Counters with the base of each site, what was moved between it and this site, and what it had used when it answered last. What other sites move among themselves is not known here. `more` counts the others.',
      answer: ({ query: { count = DEFAULT_LIMITS } }) => listShares(options, known().names, count),
    }),
  ];
}

const NOTHING: SitesReport = { peers: [], errorRatio: 0, errorBound: 0 };
