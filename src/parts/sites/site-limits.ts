import { findCounter } from '../../engine/decide/counter-key.ts';
import { namedAlgorithm } from '../../engine/holds/limits.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { type AskParts, askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { ListedShare, ShareList, SitePortion } from './answers.ts';
import { computeErrorRatio } from './measured-error.ts';
import type { SharedCounter, SharedPlace, SharedQuestion, SharedReport } from './shared-counters.ts';
import { admissible, isBucket, siteAdvance, siteBase, siteTotal } from './site-part.ts';
import { isSiteShare, type SiteShareLimit } from './site-share.ts';

/** Finds the counters that processes exchange with other sites, and the rule of each. */
interface ShareSources extends Pick<AdminOptions, 'rules' | 'hash' | 'clock' | 'counters'> {
  readonly ask: AskParts;
}

/** @param sites  all sites, indexed by place */
export async function listShares(
  { ask, rules, hash, ...names }: ShareSources,
  sites: readonly string[],
  asked: SharedQuestion,
): Promise<ShareList> {
  const { count } = asked;
  const reports = await askPart<SharedReport>({ ask }, 'sites', asked);
  const tree = rules();
  const shown = shownBy(true, hash);
  const counters = mergeReports(reports);
  const limits = counters.slice(0, count).flatMap((counter): ListedShare[] => {
    const known = tree && findCounter(tree, counter.key, names);
    const limit = known?.limit.limit;
    if (!known || !limit || !isSiteShare(limit)) return []; // its rule is no longer in force
    const { domain, entries, rule } = known;
    const { name } = known.limit.label;
    return [
      {
        domain,
        entries: shownEntries(entries, shown),
        rule: rule.path,
        ...(name !== '' && { name }),
        limit: describeLimit(known.limit),
        algorithm: namedAlgorithm(limit),
        ...describe(limit, counter, sites),
      },
    ];
  });
  const more = Math.max(counters.length - limits.length, ...reports.map((one) => one.more)); // processes may list the same
  return { limits, more };
}

/** Merges the reports of processes that exchange the same counter: takes the newest answer of each site. */
function mergeReports(reports: readonly SharedReport[]): readonly SharedCounter[] {
  const byKey = new Map<string, SharedCounter>();
  for (const one of reports.flatMap(({ counters }) => counters)) {
    const known = byKey.get(one.key);
    byKey.set(one.key, known && known.epochMs === one.epochMs ? merge(known, one) : newest(known, one));
  }
  return [...byKey.values()];
}

const newest = (known: SharedCounter | undefined, one: SharedCounter): SharedCounter =>
  known && known.epochMs > one.epochMs ? known : one;

const merge = (known: SharedCounter, one: SharedCounter): SharedCounter => ({
  ...one,
  sites: one.sites.map((site, place) => pickNewer(known.sites[place], site)),
});

const pickNewer = (known: SharedPlace | undefined, one: SharedPlace): SharedPlace => {
  const agoMs = ({ usedMsAgo = Number.POSITIVE_INFINITY }: SharedPlace): number => usedMsAgo;
  return known && agoMs(known) < agoMs(one) ? known : one;
};

/** Describes the base, share and use of each site. */
function describe(
  limit: SiteShareLimit,
  { room, leftMs, sites }: SharedCounter,
  names: readonly string[],
): Omit<ListedShare, 'domain' | 'entries' | 'rule' | 'limit' | 'algorithm'> {
  const [taken, given] = [sumField(sites, 'taken'), sumField(sites, 'given')];
  const uses = sites.flatMap(({ used }) => used ?? []);
  const left = room + siteAdvance(limit);
  const isOptimistic = limit.maxErrorPercent > 0;
  return {
    mode: isOptimistic ? 'optimistic' : 'escrow',
    hasFallenBack: isOptimistic && left < 1,
    isBucket: isBucket(limit),
    total: siteTotal(limit),
    left: Math.max(left, 0),
    leftMs: Math.max(leftMs, 0),
    ...(uses.length === sites.length - (limit.lost?.length ?? 0) && {
      errorRatio: computeErrorRatio(limit, sumOfAll(uses), room),
    }),
    errorBound: limit.maxErrorPercent / 100,
    sites: sites.map(({ used, usedMsAgo, ...sums }, place): SitePortion => {
      const base = siteBase({ ...limit, site: place });
      const moved = place === limit.site ? taken - given : sums.given - sums.taken;
      return {
        site: names[place] ?? '',
        base,
        moved,
        share: admissible(limit, base, moved),
        ...(used !== undefined && usedMsAgo !== undefined && { used, usedMsAgo }),
        ...(limit.lost?.includes(place) && { isLost: true }),
      };
    }),
  };
}

const sumOfAll = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

const sumField = (sites: readonly SharedPlace[], field: 'taken' | 'given'): number =>
  sumOfAll(sites.map((site) => site[field]));
