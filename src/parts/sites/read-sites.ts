import { rateFor } from '../../engine/algorithms/index.ts';
import { MAX_COUNT, unitMs } from '../../engine/algorithms/limit.ts';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import { isRateLimit, type Limit } from '../../engine/holds/limits.ts';
import { listExcluded } from '../../engine/rules/compile/excluded.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { choiceReader } from '../../engine/rules/read/choice.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { isBucket, maxError } from './site-part.ts';
import { type SiteShareLimit, siteModes } from './site-share.ts';

/** The shortest window within which hits can be moved. */
const MIN_WINDOW_MS = unitMs.SECOND;

/** Without SITE, a file is read as if this were the only site. */
const ONLY_SITE: SiteSplit = { sites: 1, site: 0, group: 'alone' };

/** This site's share of the limit, if the rule divides it among sites. Without `split` this is the only site. */
export function readSites(
  { values, place }: Block<'rate_limit'>,
  { limit: whole, split }: { readonly limit: Limit | undefined; readonly split?: SiteSplit | undefined },
  problems: Problems,
): Limit | undefined {
  const { sites } = values;
  if (!sites) return whole;
  const maxErrorPercent = readMaxError(sites, problems);
  const others = listExcluded(values);
  for (const other of others) problems.error(place(other), `${other} cannot be used with sites: remove one of them`);
  if (!whole || maxErrorPercent === undefined || others.length > 0) return undefined;
  const limit = createShare(whole, split ?? ONLY_SITE, maxErrorPercent);
  if (!limit) return problems.error(place('sites'), UNSHARED);
  const problem = findProblem(limit);
  return problem === undefined ? limit : problems.error(place('sites'), problem);
}

const MAX_ERROR_PERCENT = 50;

/** Percentage by which the limit may be exceeded; undefined if it is invalid. */
function readMaxError({ values, invalid, place }: Block<'sites'>, problems: Problems): number | undefined {
  const report = (key: keyof typeof values, message: string): undefined => problems.error(place(key), message);
  const mode = choiceReader(values, report)('mode', siteModes);
  const { max_error: error } = values;
  if (!mode || invalid.size > 0) return undefined; // reported already
  if (mode === 'escrow')
    return error === undefined ? 0 : report('max_error', 'max_error goes with mode: optimistic, not with escrow');
  const percent = /^\d+(\.\d+)?%$/.test(error ?? '') ? Number(error?.slice(0, -1)) : 0;
  if (percent > 0 && percent <= MAX_ERROR_PERCENT) return percent;
  const expected = `above 0% and up to ${MAX_ERROR_PERCENT}%, such as 5%`;
  if (error !== undefined) return report('max_error', `max_error must be ${expected}, got '${error}'`);
  return report('mode', `mode: optimistic requires a max_error ${expected}, got nothing`);
}

const UNSHARED =
  'sites requires fixed_window with alignment: epoch, or token_bucket with refill: continuous, whose hits can move between sites';

/** The share of this site; undefined if the limit's hits cannot be moved. */
function createShare(
  whole: Limit,
  { sites, site, group, lost }: SiteSplit,
  maxErrorPercent: number,
): SiteShareLimit | undefined {
  const { requestsPerUnit, soft, windowMs } = whole;
  const burst = isRateLimit(whole) ? rateFor(whole).movable?.(whole) : undefined;
  if (burst === undefined) return undefined;
  const of = whole.algorithm as SiteShareLimit['of']; // only these have hits that can move
  return {
    algorithm: 'site_share',
    of,
    requestsPerUnit,
    soft,
    windowMs,
    burst,
    maxErrorPercent,
    sites,
    site,
    ...(lost && { lost }),
    counter: `site_share|${of}|${windowMs}/${sites}.${group}`,
  };
}

function findProblem(limit: SiteShareLimit): string | undefined {
  const { windowMs, burst, sites } = limit;
  if (windowMs < MIN_WINDOW_MS) return `sites requires a window of at least 1s, got ${windowMs} ms`;
  if (!isBucket(limit)) return undefined;
  if (burst < sites) return `sites requires a burst of at least one token for each of ${sites} sites, got ${burst}`;
  const product = (burst + maxError(limit) + 1) * windowMs * sites;
  if (product <= MAX_COUNT) return undefined;
  return `burst times milliseconds of the window times sites must stay below 2^53 to be exact, got ${product}`;
}
