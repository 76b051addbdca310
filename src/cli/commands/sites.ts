import type { Command } from 'commander';
import { printableJson } from '../../base/printable.ts';
import type { ShareList } from '../../operate/admin/site-limits.ts';
import type { SiteList } from '../../operate/admin/site-operations.ts';
import { command, count, queryOf, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, guarded, type Target } from './client.ts';
import type { Paint } from './paint.ts';
import { renderSites } from './render-sites.ts';
import { show } from './show.ts';

interface SiteFlags extends Target {
  readonly json: boolean;
  readonly count: number;
}

/** Adds the command that shows the sites, and each site's share of the limits. */
export function addSitesCommand(program: Command, { print, fail, ...around }: Surroundings): void {
  command(program, 'sites', 'list the sites that share limits, and what each has and uses', around.env)
    .summary('list sites, and their shares of limits')
    .option('--count <n>', 'how many limits', count, 20)
    .action(
      guarded(fail, async (flags: SiteFlags) => {
        const sites = await callApi<SiteList>(flags, 'GET', '/api/v1/sites');
        const query = queryOf({ count: flags.count });
        const shares = callApi<ShareList>(flags, 'GET', `/api/v1/sites/limits?${query}`);
        if (flags.json) print(printableJson({ ...sites, ...(await shares) }));
        else show(flags, { sites, shares: await shares.catch(refusalOf) }, renderAll, { print, ...around });
      }),
    );
}

const renderAll = (found: { readonly sites: SiteList; readonly shares: ShareList | string }, paint: Paint): string =>
  renderSites(found.sites, found.shares, paint);

/** Without a token, the sites are shown without the limits. */
function refusalOf(error: unknown): string {
  if (error instanceof CommandFailed) return error.message;
  throw error;
}
