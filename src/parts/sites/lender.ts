import type { Monotonic } from '../../base/clock.ts';
import { MAX_COUNT } from '../../engine/algorithms/limit.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { Limit } from '../../engine/holds/limits.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { createTransfer, type Peer } from './borrower.ts';
import type { BorrowRequest, BorrowResponse, SiteAsk } from './messages.ts';
import { isSiteShare, type SiteShareLimit } from './site-share.ts';

/** A counter whose hits other sites request. */
interface LentCounter {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  /** Time of the last request of each site, by place, and of any site, on the monotonic clock. */
  readonly askers: Map<number, number>;
  readonly askedAtMs: number;
}

interface LenderOptions {
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly timeoutMs: number;
  readonly monotonicMs: Monotonic;
  readonly sites: readonly string[];
  /** Sites in `SITE_LOST`, whose parts the remaining sites have. */
  readonly lost: readonly string[];
  /** Limits of this site's rules, as no others are lent. */
  readonly limits: OwnLimits;
  readonly prefix: string;
  readonly peers: readonly Peer[];
}

/** Thrown if the two sites have different lists of sites, or this site's SITE_LOST contains the one that asks. */
export class OtherSites extends Error {
  override readonly name = 'OtherSites';
}

/** Time after its last request for which a site counts as asking for a counter. */
const ASKS_MS = 1_500;
/** Maximum number of counters whose askers are kept. */
const MAX_ASKED = 20_000;
/** Maximum number of counters in one message. */
const MAX_ASKS = 4_096;

const NOTHING = { is_lent: false, given: 0, now_ms: 0, used: 0 };

/** Lends other sites the hits that this one will not use. */
export class Lender {
  readonly #options: LenderOptions;
  /** Counters that other sites requested, with the time of each site's last request. */
  #asked = new Map<CounterKey, LentCounter>();

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** @throws OtherSites */
  async lend({ site, sites, asks }: BorrowRequest): Promise<BorrowResponse> {
    const { ledger, timeoutMs, prefix, limits, peers, lost, sites: own } = this.#options;
    if (lost.includes(site)) throw new OtherSites(`SITE_LOST names ${site} here: the other sites have its part`);
    const peer = peers.find((one) => one.site === site);
    if (!peer || sites.join() !== own.join())
      throw new OtherSites(`this site shares limits with ${own.join(', ')}; ${site} with ${sites.join(', ')}`);
    peer.counts.asked++;
    peer.counts.askedAtMs = this.#options.monotonicMs();
    const found = asks.slice(0, MAX_ASKS).map((ask) => ({ ask, counter: findOwn(ask, prefix, limits) }));
    const debits = found.flatMap(({ ask, counter }): Debit[] => {
      if (!counter) return [];
      const among = this.#countAskers(counter, peer.place, ask.hits > 0);
      const transfer = { kind: 'lend', peer: peer.place, epochMs: ask.epoch_ms, taken: ask.taken, among } as const;
      return [createTransfer(counter, transfer, ask.hits)];
    });
    const replies = debits.length > 0 ? await ledger.debit(debits, { spend: 'each', timeoutMs }) : [];
    let next = 0;
    const loans = found.map(({ counter }) => {
      const reply = counter && replies[next++];
      if (reply?.code !== 'OK' || !reply.site) return NOTHING;
      const given = reply.site.given[peer.place] ?? 0;
      return { is_lent: true, given, now_ms: reply.site.nowMs, used: reply.site.used };
    });
    return { loans };
  }

  /** Counters requested since a time on the monotonic clock. */
  askedSince(sinceMs: number): readonly LentCounter[] {
    return [...this.#asked.values()].filter(({ askedAtMs }) => askedAtMs >= sinceMs);
  }

  /** Number of sites that ask for the counter, including the one that asks now; at least 1. */
  #countAskers({ key, limit }: Pick<LentCounter, 'key' | 'limit'>, place: number, isAsking: boolean): number {
    const nowMs = this.#options.monotonicMs();
    if (this.#asked.size >= MAX_ASKED) this.#asked.clear();
    const askers = this.#asked.get(key)?.askers ?? new Map<number, number>();
    if (isAsking) askers.set(place, nowMs);
    this.#asked.set(key, { key, limit, askers, askedAtMs: nowMs });
    for (const [other, atMs] of askers) if (nowMs - atMs > ASKS_MS) askers.delete(other);
    return Math.max(askers.size, 1);
  }
}

/** The part of the rules that contains their limits. */
interface LimitTable {
  readonly rules: Iterable<{ readonly limits: readonly { readonly limit: Limit }[] }>;
}

/** Finds the limit of this site's own rules by the name of its counters, its rate and its burst. */
type OwnLimits = (counter: string, requestsPerUnit: number, burst: number) => SiteShareLimit | undefined;

/** @param rules  returns the current rules */
export function createOwnLimits(rules: () => LimitTable | undefined): OwnLimits {
  let source: LimitTable | undefined;
  let known = new Map<string, SiteShareLimit>();
  return (counter, requestsPerUnit, burst) => {
    const tree = rules();
    if (tree !== source) {
      source = tree;
      known = new Map(tree ? sharedLimits(tree).map((limit) => [limitName(limit), limit]) : []);
    }
    return known.get(limitName({ counter, requestsPerUnit, burst }));
  };
}

const sharedLimits = ({ rules }: LimitTable): readonly SiteShareLimit[] =>
  [...rules].flatMap(({ limits }) => limits.flatMap(({ limit }) => (isSiteShare(limit) ? [limit] : [])));

const limitName = ({
  counter,
  requestsPerUnit,
  burst,
}: Pick<SiteShareLimit, 'counter' | 'requestsPerUnit' | 'burst'>) => `${counter}|${requestsPerUnit}|${burst}`;

/** Keys of counters that sites share, without a prefix, which are a hash tag and the name of their limit. */
const SHARED_KEY = /^(?:\{[^{}]*\})?(site_share\|[^|]+\|[^|]+)\|/;
/** Maximum characters of a key, with a tag, the name of a limit, and the name of one of its counters. */
const MAX_KEY_LENGTH = 1_024;

/** The counter here with the limit of this site's rules; undefined if sites do not share it or have other rules. */
function findOwn(
  { counter, algorithm, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst, ...rest }: SiteAsk,
  prefix: string,
  limits: OwnLimits,
): { readonly key: CounterKey; readonly limit: SiteShareLimit } | undefined {
  const name = counter.length <= MAX_KEY_LENGTH ? SHARED_KEY.exec(counter)?.[1] : undefined;
  const limit = name === undefined ? undefined : limits(name, requestsPerUnit, burst);
  if (limit?.of !== algorithm || limit.windowMs !== windowMs) return undefined;
  if (![rest.epoch_ms, rest.taken, rest.hits].every(isCount)) return undefined;
  return { key: `${prefix}${counter}` as CounterKey, limit }; // created by another site from the same rule
}

/** Messages may contain numbers up to 2^64. */
const isCount = (number: number): boolean => Number.isSafeInteger(number) && number >= 0 && number <= MAX_COUNT;
