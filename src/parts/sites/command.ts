import type { Command } from 'commander';
import { printableJson } from '../../base/printable.ts';
import { count as grouped, table } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { SiteList } from '../../operate/answers/sites.ts';
import { command, count, type ServiceFlags } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded, show } from '../lab/commands/client.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import { duration, type Paint } from '../lab/commands/paint.ts';
import type { ListedShare, ShareList, SitePortion } from './answers.ts';

/** Adds the command that shows the sites, and each site's part of the limits. */
export function addSitesCommand(program: Command, surroundings: Surroundings): void {
  const { print, fail } = surroundings;
  command(program, 'sites', 'list sites, and their parts of limits')
    .description('List the sites that share limits, and what each has and uses.')
    .option('--count <n>', 'how many limits', count, 20)
    .action(
      guarded(fail, async (flags: ServiceFlags & { readonly count: number }) => {
        const sites = await callApi(flags, { operation: 'GET /api/v1/sites' });
        const query = { count: flags.count };
        const shares = callApi(flags, { operation: 'GET /api/v1/sites/limits', query });
        if (flags.json) print(printableJson({ ...sites, ...(await shares) }));
        else show(flags, { sites, shares: await shares.catch(whyHidden) }, renderSites, surroundings);
      }),
    );
}

/** Reason why limits are hidden, since without a token only the sites are shown. */
function whyHidden(error: unknown): string {
  if (error instanceof CommandFailed) return error.message;
  throw error;
}

/** The sites, and their parts, or the reason why these are hidden. */
interface FoundSites {
  readonly sites: SiteList;
  readonly shares: ShareList | string;
}

export function renderSites({ sites, shares }: FoundSites, paint: Paint): string {
  const { errorRatio, errorBound } = sites;
  const measured = `${percent(errorRatio)} over the limit, declared ${percent(errorBound)}`;
  return [
    ...peersTable(sites, paint),
    '',
    `measured in the last minute: ${errorRatio > errorBound ? paint.bad(measured) : measured}`,
    '',
    ...(typeof shares === 'string' ? [paint.dim(`parts are not shown: ${shares}`)] : shareTable(shares, sites, paint)),
  ].join('\n');
}

const stateTexts = { in_step: 'in step', cut_off: 'cut off', idle: 'idle' } as const;

function peersTable({ site, peers, lost }: SiteList, paint: Paint): readonly string[] {
  const rows = peers.map(({ site: name, state, roundTripMs, silentMs, ...counts }) => [
    name,
    stateTexts[state],
    roundTripMs > 0 ? `${Math.round(roundTripMs)} ms` : '-',
    agoText(silentMs),
    agoText(counts.askedMsAgo),
    grouped(counts.failures),
    grouped(counts.untimely),
    grouped(counts.borrowed),
  ]);
  const [head = '', own = '', ...others] = table([
    ['SITE', 'STATE', 'LAG', 'ANSWERED', 'CALLED HERE', 'FAILED', 'UNTIMELY', 'BORROWED'],
    [site, 'this one', '', '', '', '', '', ''],
    ...rows,
  ]);
  return [
    paint.dim(head),
    own,
    ...others.flatMap((line, at) => {
      const { state, problem } = peers[at] ?? {};
      return state === 'cut_off' ? [paint.bad(line), ...(problem ? [paint.dim(`  ${problem}`)] : [])] : [line];
    }),
    ...(lost.length > 0 ? [`lost by SITE_LOST: ${lost.join(', ')}; the others divide its part of each limit`] : []),
  ];
}

function shareTable({ limits, more }: ShareList, { site }: SiteList, paint: Paint): readonly string[] {
  if (limits.length === 0)
    return ['no shared limit ran low in the last ten seconds: each site has its equal part of every limit'];
  return [
    ...limits.flatMap((one, at) => [...(at > 0 ? [''] : []), limitHead(one, paint), ...siteTable(one, site, paint)]),
    ...(more > 0 ? [`and ${more} more: --count`] : []),
  ];
}

const limitHead = (one: ListedShare, paint: Paint): string => {
  const of = `${one.limit.replace(/\d{4,}/g, (digits) => grouped(Number(digits)))}, ${modeText(one)}, ${duration(Math.max(one.leftMs, 1))} left`;
  return `${paint.strong(`${one.domain} ${shownEntries(one.entries)}`)}  ${paint.dim(one.rule)}\n  ${of}${errorText(one, paint)}`;
};

const modeText = ({ mode, hasFallenBack, errorBound }: ListedShare): string =>
  mode === 'escrow'
    ? mode
    : `${mode} up to ${percent(errorBound)}${hasFallenBack ? ' (used up here: continues as escrow)' : ''}`;

function errorText({ errorRatio, errorBound }: ListedShare, paint: Paint): string {
  if (errorRatio === undefined) return '';
  const text = `${percent(errorRatio)} over`;
  return `, ${errorRatio > errorBound ? paint.bad(text) : text}`;
}

function siteTable({ sites }: ListedShare, own: string, paint: Paint): readonly string[] {
  const [head = '', ...lines] = table([
    ['SITE', 'BASE', 'MOVED', 'PART', 'USED', ''],
    ...sites.map(({ site, base, moved, share, used, ...more }: SitePortion) => [
      site,
      grouped(base),
      moved > 0 ? `+${grouped(moved)}` : grouped(moved),
      grouped(share),
      used === undefined ? '?' : grouped(used),
      ageText(more, site === own),
    ]),
  ]);
  return [paint.dim(`  ${head}`), ...lines.map((line) => `  ${line}`)];
}

function ageText({ isLost, usedMsAgo }: Pick<SitePortion, 'isLost' | 'usedMsAgo'>, isOwn: boolean): string {
  if (isOwn) return 'this site';
  if (isLost) return 'lost';
  return usedMsAgo === undefined ? 'not known in this window' : agoText(usedMsAgo);
}

const agoText = (ms: number): string => (ms < 0 ? 'never' : ms === 0 ? 'now' : `${duration(ms)} ago`);

/** `0 %`, `4.2 %`. */
const percent = (ratio: number): string => `${Math.round(ratio * 1_000) / 10} %`;
