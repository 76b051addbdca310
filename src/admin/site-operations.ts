import type { SitesReport } from '../sites/site-counts.ts';
import { type ApiOperation, operation } from './api.ts';
import { noQuery } from './parameters.ts';
import { ApiProblem } from './problem.ts';

/** The sites that share limits. */
export interface SiteOperationsOptions {
  /** Undefined: this is the only site. */
  readonly sites: { readonly name: string; readonly names: readonly string[] } | undefined;
  /** The exchange with the others, by all processes of this instance. */
  readonly report: () => SitesReport | undefined;
}

/** How it stands with the exchange with other sites. */
export function siteOperations({ sites, report }: SiteOperationsOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/sites',
      method: 'GET',
      summary: 'the sites that share limits, and the exchanges of this instance with each',
      need: 'open',
      query: noQuery,
      answers:
        'Exchanges since the start, hits that were borrowed, and the time since the last answer in milliseconds; -1: there was none. errorRatio is the most by which a limit was exceeded in the last minute, errorBound what its rule declares.',
      answer: () => {
        if (!sites) throw new ApiProblem(404, 'this is the only site: SITE is not set');
        return { site: sites.name, sites: sites.names, ...report() };
      },
    }),
  ];
}
