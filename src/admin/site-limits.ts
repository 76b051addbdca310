import { namedAlgorithmOf } from '../algorithms/index.ts';
import type { SiteShareLimit } from '../algorithms/site-share.ts';
import { advanceOf, baseOf } from '../algorithms/site-share-state.ts';
import { describeLimit } from '../rules/describe.ts';
import type { Entry } from '../rules/match.ts';
import { errorRatioOf } from '../sites/measured-error.ts';
import type { SharedCounter, SharedPlace, SharedReport } from '../sites/shared-counters.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import { counterOf } from './counter-key.ts';
import type { AdminOptions } from './options.ts';
import { type Shown, shownBy } from './shown-value.ts';

/** What one site has of a shared limit, as far as the site that answers knows. Whole hits, of a bucket tokens. */
export interface SitePortion {
  readonly site: string;
  /** Its equal part of the limit. */
  readonly base: number;
  /** What the site that answers has given to it in this window, less what it has taken; of itself the reverse. */
  readonly moved: number;
  /** Base and moved hits: what it may admit in the window. Of a bucket the base: moved tokens are used, or refilled. */
  readonly share: number;
  /** Absent: it has not answered in this window. */
  readonly used?: number;
  readonly usedMsAgo?: number;
  /** `SITE_LOST`: the others have its part. */
  readonly isLost?: true;
}

/** A counter of a shared limit. */
export interface ListedShare {
  readonly domain: string;
  readonly entries: readonly Entry[];
  readonly rule: string;
  readonly name?: string;
  /** `6000 per minute`. */
  readonly limit: string;
  readonly algorithm: string;
  readonly mode: 'escrow' | 'optimistic';
  /** `mode: optimistic`: this site has used up what it may admit in advance, and goes on as with escrow. */
  readonly hasFallenBack: boolean;
  /** What all sites together may admit at once: the hits of a window, the burst of a bucket. */
  readonly total: number;
  /** What this site may still admit, in advance as well. */
  readonly left: number;
  /** Until the window ends; of a bucket, until what was moved is void. */
  readonly leftMs: number;
  /** By how much the limit is exceeded, as a part of it; absent: not all sites have said what they have used. */
  readonly errorRatio?: number;
  readonly errorBound: number;
  readonly sites: readonly SitePortion[];
}

export interface ShareList {
  readonly limits: readonly ListedShare[];
  /** Counters that are not listed. */
  readonly more: number;
}

/** Finds the counters that processes exchange, and the rule of each. */
export interface ShareSources extends Pick<AdminOptions, 'rules' | 'hashKeys'> {
  readonly ask: (question: SitesQuestion) => Promise<readonly NamedReply<ReplyTo<SitesQuestion>>[]>;
  readonly decider: Parameters<typeof counterOf>[2];
}

type SitesQuestion = Extract<AgentQuestion, { kind: 'sites' }>;

/** @param names  all sites, in the order of their places */
export async function listShares(
  { ask, rules, decider, hashKeys }: ShareSources,
  names: readonly string[],
  count: number,
): Promise<ShareList> {
  const replies = await ask({ kind: 'sites', count });
  const reports = replies.flatMap(({ reply: { report } }) => report ?? []);
  const tree = rules();
  const shown = shownBy(true, hashKeys);
  const counters = mergedOf(reports);
  const limits = counters.slice(0, count).flatMap((counter): ListedShare[] => {
    const known = tree && counterOf(tree, counter.key, decider);
    const limit = known?.limit.limit;
    if (!known || limit?.algorithm !== 'site_share') return []; // of rules that are no longer in force
    const { domain, entries, rule } = known;
    const { name } = known.limit.label;
    return [
      {
        ...{ domain, entries: entriesOf(entries, shown), rule: rule.path, ...(name !== '' && { name }) },
        ...{ limit: describeLimit(known.limit), algorithm: namedAlgorithmOf(limit) },
        ...describe(limit, counter, names),
      },
    ];
  });
  const more = Math.max(counters.length - limits.length, ...reports.map((one) => one.more)); // processes may list the same
  return { limits, more };
}

const entriesOf = (entries: readonly Entry[], shown: Shown): readonly Entry[] =>
  entries.map(({ key, value }) => ({ key, value: shown(value) }));

/** Merges the reports of processes that exchange one counter: the newest answer of each site. */
function mergedOf(reports: readonly SharedReport[]): readonly SharedCounter[] {
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
  sites: one.sites.map((site, place) => laterOf(known.sites[place], site)),
});

const laterOf = (known: SharedPlace | undefined, one: SharedPlace): SharedPlace => {
  const agoMs = ({ usedMsAgo = Number.POSITIVE_INFINITY }: SharedPlace): number => usedMsAgo;
  return known && agoMs(known) < agoMs(one) ? known : one;
};

/** Describes base, share and use of each site. */
function describe(
  limit: SiteShareLimit,
  { room, leftMs, sites }: SharedCounter,
  names: readonly string[],
): Omit<ListedShare, 'domain' | 'entries' | 'rule' | 'limit' | 'algorithm'> {
  const [taken, given] = [sumOf(sites, 'taken'), sumOf(sites, 'given')];
  const uses = sites.flatMap(({ used }) => used ?? []);
  const left = room + advanceOf(limit);
  const isOptimistic = limit.maxErrorPercent > 0;
  return {
    mode: isOptimistic ? 'optimistic' : 'escrow',
    hasFallenBack: isOptimistic && left < 1,
    total: limit.of === 'token_bucket' ? limit.burst : limit.requestsPerUnit,
    left: Math.max(left, 0),
    leftMs: Math.max(leftMs, 0),
    ...(uses.length === sites.length - (limit.lost?.length ?? 0) && {
      errorRatio: errorRatioOf(limit, sumOfAll(uses), room),
    }),
    errorBound: limit.maxErrorPercent / 100,
    sites: sites.map(({ used, usedMsAgo, ...sums }, place): SitePortion => {
      const base = baseOf({ ...limit, site: place });
      const moved = place === limit.site ? taken - given : sums.given - sums.taken;
      return {
        ...{ site: names[place] ?? '', base, moved, share: limit.of === 'token_bucket' ? base : base + moved },
        ...(used !== undefined && usedMsAgo !== undefined && { used, usedMsAgo }),
        ...(limit.lost?.includes(place) && { isLost: true }),
      };
    }),
  };
}

const sumOfAll = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

const sumOf = (sites: readonly SharedPlace[], field: 'taken' | 'given'): number =>
  sumOfAll(sites.map((site) => site[field]));
