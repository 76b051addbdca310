import type { Command } from 'commander';
import type { ShareList } from '../admin/site-limits.ts';
import type { SiteList } from '../admin/site-operations.ts';
import { command, count, paintOf, queryOf, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, guarded, type Target } from './client.ts';
import { renderSites } from './render-sites.ts';

interface SiteFlags extends Target {
  readonly json: boolean;
  readonly count: number;
}

/** Adds the command that shows the sites, and what each has of the limits that they share. */
export function addSitesCommand(program: Command, { print, fail, ...around }: Surroundings): void {
  command(program, 'sites', 'list the sites that share limits, and what each has and uses', around.env)
    .summary('list sites, and their shares of limits')
    .option('--count <n>', 'how many limits', count, 20)
    .action(
      guarded(fail, async (flags: SiteFlags) => {
        const sites = await callApi<SiteList>(flags, 'GET', '/api/v1/sites');
        const query = queryOf({ count: flags.count });
        const shares = callApi<ShareList>(flags, 'GET', `/api/v1/sites/limits?${query}`);
        if (flags.json) print(JSON.stringify({ ...sites, ...(await shares) }, undefined, 2));
        else print(renderSites(sites, await shares.catch(refusalOf), paintOf(around)));
      }),
    );
}

/** Without a token, the sites are shown, and the limits are not. */
function refusalOf(error: unknown): string {
  if (error instanceof CommandFailed) return error.message;
  throw error;
}
