import type { Monotonic } from '../../base/clock.ts';
import type { SiteShareLimit } from '../../engine/algorithms/site-share.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { type Peer, transferOf } from './borrower.ts';
import { type BorrowRequest, type BorrowResponse, counterOf, type SiteLoan } from './messages.ts';
import type { OwnLimits } from './own-limits.ts';

/** A counter whose hits other sites request. */
interface LentCounter {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  /** When each site requested hits last, by its place, and when any site did; on the monotonic clock. */
  readonly askers: Map<number, number>;
  readonly askedAtMs: number;
}

interface LenderOptions {
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly timeoutMs: number;
  readonly monotonicMs: Monotonic;
  readonly sites: readonly string[];
  /** `SITE_LOST`: the remaining sites have their parts. */
  readonly lost: readonly string[];
  /** The limits of this site's rules: no others are lent. */
  readonly limits: OwnLimits;
  readonly prefix: string;
  readonly peers: readonly Peer[];
}

/** The two sites have different lists of sites, or this site's SITE_LOST contains the one that asks. */
export class OtherSites extends Error {
  override readonly name = 'OtherSites';
}

/** A site counts as asking for a counter for this long after its last request. */
const ASKS_MS = 1_500;
/** The most counters whose askers are kept. */
const MAX_ASKED = 20_000;
/** The most counters in one message. */
const MAX_ASKS = 4_096;

const NOTHING: SiteLoan = { is_lent: false, given: 0, now_ms: 0, used: 0 };

/** Lends other sites the hits that this one will not use. */
export class Lender {
  readonly #options: LenderOptions;
  /** The counters that other sites requested, and when each site did last. */
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
    const found = asks.slice(0, MAX_ASKS).map((ask) => ({ ask, counter: counterOf(ask, prefix, limits) }));
    const debits = found.flatMap(({ ask, counter }): Debit[] => {
      if (!counter) return [];
      const among = this.#askersOf(counter, peer.place, ask.hits > 0);
      const transfer = { kind: 'lend', peer: peer.place, epochMs: ask.epoch_ms, taken: ask.taken, among } as const;
      return [transferOf(counter, transfer, ask.hits)];
    });
    const replies = debits.length > 0 ? await ledger.debit(debits, { spend: 'each', timeoutMs }) : [];
    let next = 0;
    const loans = found.map(({ counter }): SiteLoan => {
      const reply = counter && replies[next++];
      if (reply?.code !== 'OK' || !reply.site) return NOTHING;
      const given = reply.site.given[peer.place] ?? 0;
      return { is_lent: true, given, now_ms: reply.site.nowMs, used: reply.site.used };
    });
    return { loans };
  }

  /** The counters requested since a time on the monotonic clock. */
  askedSince(sinceMs: number): readonly LentCounter[] {
    return [...this.#asked.values()].filter(({ askedAtMs }) => askedAtMs >= sinceMs);
  }

  /** The number of sites that ask for the counter, including the one that asks now; at least 1. */
  #askersOf({ key, limit }: Pick<LentCounter, 'key' | 'limit'>, place: number, isAsking: boolean): number {
    const nowMs = this.#options.monotonicMs();
    if (this.#asked.size >= MAX_ASKED) this.#asked.clear();
    const askers = this.#asked.get(key)?.askers ?? new Map<number, number>();
    if (isAsking) askers.set(place, nowMs);
    this.#asked.set(key, { key, limit, askers, askedAtMs: nowMs });
    for (const [other, atMs] of askers) if (nowMs - atMs > ASKS_MS) askers.delete(other);
    return Math.max(askers.size, 1);
  }
}
