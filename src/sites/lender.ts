import type { CounterKey } from '../backends/key.ts';
import type { Monotonic } from '../clock.ts';
import type { Debit } from '../ledger/debit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type Peer, transferOf } from './borrower.ts';
import { type BorrowRequest, type BorrowResponse, counterOf, type SiteLoan } from './messages.ts';
import type { OwnLimits } from './own-limits.ts';

export interface LenderOptions {
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly timeoutMs: number;
  readonly monotonicMs: Monotonic;
  readonly sites: readonly string[];
  /** Those of this site's rules: no other ones are lent. */
  readonly limits: OwnLimits;
  readonly prefix: string;
  readonly peers: readonly Peer[];
}

/** The two sites do not name the same sites. */
export class OtherSites extends Error {
  override readonly name = 'OtherSites';
}

/** Sites that asked for a counter so long ago do not ask for it any more. */
const ASKS_MS = 1_500;
/** Counters whose askers are known. */
const MAX_ASKED = 20_000;
/** What is asked for in one message. */
const MAX_ASKS = 4_096;

const NOTHING: SiteLoan = { is_lent: false, given: 0, now_ms: 0, used: 0 };

/** Lends other sites what this one is not going to use. */
export class Lender {
  readonly #options: LenderOptions;
  /** When each site asked for a counter last. */
  #askers = new Map<CounterKey, Map<number, number>>();

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** @throws OtherSites */
  async lend({ site, sites, asks }: BorrowRequest): Promise<BorrowResponse> {
    const { ledger, timeoutMs, prefix, limits, peers, sites: own } = this.#options;
    const peer = peers.find((one) => one.site === site);
    if (!peer || sites.join() !== own.join())
      throw new OtherSites(`this site shares limits with ${own.join(', ')}; ${site} with ${sites.join(', ')}`);
    const found = asks.slice(0, MAX_ASKS).map((ask) => ({ ask, counter: counterOf(ask, prefix, limits) }));
    const debits = found.flatMap(({ ask, counter }): Debit[] => {
      if (!counter) return [];
      const among = this.#askersOf(counter.key, peer.place, ask.hits > 0);
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

  /** How many sites ask for the counter, this one included. */
  #askersOf(key: CounterKey, place: number, isAsking: boolean): number {
    const nowMs = this.#options.monotonicMs();
    if (this.#askers.size >= MAX_ASKED) this.#askers.clear();
    const askers = this.#askers.get(key) ?? new Map<number, number>();
    if (isAsking) askers.set(place, nowMs);
    this.#askers.set(key, askers);
    for (const [other, atMs] of askers) if (nowMs - atMs > ASKS_MS) askers.delete(other);
    return Math.max(askers.size, 1);
  }
}
