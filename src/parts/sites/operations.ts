import { fields } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { pageSize } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { SiteList } from '../../operate/answers/sites.ts';
import { exchangeState, type SitesReport } from '../../operate/observe/site-counts.ts';
import { listShares } from './site-limits.ts';

const MAX_LIMITS = 500;
const DEFAULT_LIMITS = 50;

/** Operations that show the exchange with other sites, and each site's share of the limits. */
export function siteOperations(options: AdminOptions) {
  const known = () => {
    const { sites } = options.settings;
    if (!sites) throw new ApiProblem(404, 'this is the only site: SITE is not set');
    return sites;
  };
  const operations = [
    operation('GET /api/v1/sites', {
      summary: 'the sites that share limits, and the exchanges of this instance with each',
      need: 'open',
      domains: 'any',
      answers:
        'Exchanges since the start, borrowed hits, and the milliseconds since the last answer (-1: there was none). `state` is in_step, cut_off, or idle: no exchange in the last ten seconds. `errorRatio` is the largest excess over a limit in the last minute, `errorBound` the max_error of its rule.',
      answer: (): SiteList => {
        const { name, names, lost } = known();
        const { peers, errorRatio, errorBound } = options.sites() ?? NOTHING;
        return {
          site: name,
          sites: names,
          lost,
          errorRatio,
          errorBound,
          peers: peers.map((peer) => ({ ...peer, state: exchangeState(peer) })),
        };
      },
    }),
    operation('GET /api/v1/sites/limits', {
      summary: 'shares and use, by site, of the limits that this instance exchanged in the last ten seconds',
      need: 'read',
      domains: 'selected',
      query: fields({}, { count: pageSize(MAX_LIMITS) }),
      answers:
        'Counters with the base of each site, the hits moved between it and this site, and its use as of its last answer. Moves between other sites are not known here. `more` counts the others.',
      answer: ({ query: { count = DEFAULT_LIMITS }, client: { domains } }) =>
        listShares(options, known().names, { count, domains }),
    }),
  ];
  return { operations };
}

const NOTHING: SitesReport = { peers: [], errorRatio: 0, errorBound: 0 };
