import { intermittent, type Monotonic } from '../../base/clock.ts';
import { after, type Eventual } from '../../base/later.ts';
import type { Reply } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { SiteTransfer } from '../../engine/holds/claim.ts';
import type { SiteReport } from '../../engine/holds/reports.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { PeerReport } from '../../operate/answers/sites.ts';
import type { PeerCounts } from '../../operate/observe/site-counts.ts';
import type { DeciderPart } from '../../serve/decider/part.ts';
import type { LowCounter, LowCounters } from './low-counters.ts';
import type { MeasuredError } from './measured-error.ts';
import type { BorrowRequest, BorrowResponse, SiteAsk } from './messages.ts';
import { isBucket } from './site-part.ts';
import { hitsPerSite, isSiteShare, missingHits, type SiteShareLimit, SLOT_MS } from './site-share.ts';

/** Another site, and how to call it. */
export interface Peer {
  readonly site: string;
  /** Index among the sites. */
  readonly place: number;
  readonly counts: PeerCounts;
  /** Sends a request; rejects with an Error without an answer. */
  borrow(request: BorrowRequest): Promise<BorrowResponse>;
}

interface BorrowerOptions {
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly timeoutMs: number;
  readonly monotonicMs: Monotonic;
  readonly site: string;
  readonly sites: readonly string[];
  readonly prefix: string;
  readonly peers: readonly Peer[];
  readonly error: MeasuredError;
}

/** Empty note at the end of a message of grpc-js. */
const EMPTY_NOTE = /\s*Resolution note:\s*$/;
/** Maximum number of counters in one message. */
const MAX_ASKS = 1_000;

interface CheckedCounter {
  readonly counter: LowCounter;
  readonly site: SiteReport;
  readonly need: number;
  /** Hits admitted by the other sites that answered. */
  others: number;
}

/** Requests hits from other sites for counters that run low. */
export class Borrower {
  readonly #options: BorrowerOptions;
  /** Exchanges in flight, at most one for each peer. */
  readonly #asking = new Map<Peer, Promise<void>>();

  constructor(options: BorrowerOptions) {
    this.#options = options;
  }

  /** Exchanges once with each site, without waiting for sites that failed to answer the last time. Never rejects. */
  async exchange(low: readonly LowCounter[]): Promise<void> {
    for (let at = 0; at < low.length; at += MAX_ASKS) {
      const checked = await this.#check(low.slice(at, at + MAX_ASKS));
      await Promise.all(this.#options.peers.map((peer) => this.#askOnce(peer, checked)));
      for (const { counter, site, others } of checked) this.#options.error.note(counter.limit, site, others);
    }
  }

  /** Resolves when no exchange is in flight. Never rejects. */
  async ended(): Promise<void> {
    await Promise.all(this.#asking.values());
  }

  /** Calls a peer, unless an earlier call is still in flight. */
  #askOnce(peer: Peer, checked: readonly CheckedCounter[]): Promise<void> | undefined {
    if (this.#asking.has(peer)) return undefined;
    const isWaitedFor = peer.counts.failing === 0;
    const asking = this.#ask(peer, checked).finally(() => this.#asking.delete(peer));
    this.#asking.set(peer, asking);
    return isWaitedFor ? asking : undefined;
  }

  async #check(low: readonly LowCounter[]): Promise<readonly CheckedCounter[]> {
    const replies = await this.#run(low.map((counter) => createTransfer(counter, { kind: 'read' })));
    return low.flatMap((counter, at) => {
      const site = readReport(replies[at]);
      if (!site) return [];
      const need = missingHits(counter.limit, site, Math.max(site.demand, this.#refusedInSlot(counter)));
      return [{ counter, site, need, others: 0 }];
    });
  }

  /** Hits refused since the last check, scaled to the time over which demand is measured. */
  #refusedInSlot(counter: LowCounter): number {
    const nowMs = this.#options.monotonicMs();
    const { refused, checkedAtMs } = counter;
    counter.refused = 0;
    counter.checkedAtMs = nowMs;
    return Math.ceil(refused * Math.min(SLOT_MS / (nowMs - checkedAtMs), 1));
  }

  async #ask(peer: Peer, checked: readonly CheckedCounter[]): Promise<void> {
    const { site, sites, prefix, monotonicMs } = this.#options;
    const { place, counts } = peer;
    const asked = checked.filter((one) => one.need > 0 || isUnconfirmed(one, place));
    if (asked.length === 0) return;
    const asks = asked.map(({ counter, site: { epochMs, taken }, need }): SiteAsk => {
      return createAsk(counter.key, prefix, counter.limit, {
        epoch_ms: epochMs,
        taken: taken[place] ?? 0,
        hits: hitsPerSite(counter.limit, need),
      });
    });
    const startedMs = monotonicMs();
    try {
      const { loans } = await peer.borrow({ site, sites, asks });
      counts.exchanges++;
      counts.answeredAtMs = monotonicMs();
      counts.roundTripMs = counts.answeredAtMs - startedMs;
      counts.failing = 0;
      counts.problem = '';
      await this.#take(peer, asked, loans);
    } catch (error) {
      counts.failures++;
      counts.failing++;
      counts.failedAtMs = monotonicMs();
      counts.problem = (error instanceof Error ? error.message : String(error)).replace(EMPTY_NOTE, '');
    }
  }

  async #take(
    { place, counts }: Peer,
    asked: readonly CheckedCounter[],
    loans: BorrowResponse['loans'],
  ): Promise<void> {
    const lent = asked.flatMap((one, at) => {
      const loan = loans[at];
      if (!loan?.is_lent) return [];
      one.others += loan.used;
      one.counter.uses[place] = { epochMs: one.site.epochMs, used: loan.used, atMs: counts.answeredAtMs };
      one.counter.confirmed[place] = { epochMs: one.site.epochMs, taken: one.site.taken[place] ?? 0 }; // the peer has read this
      return loan.given > (one.site.taken[place] ?? 0) ? [{ one, loan }] : [];
    });
    const replies = await this.#run(
      lent.map(({ one: { counter, site }, loan: { given, now_ms: repliedMs } }) => {
        const { epochMs, nowMs: sentMs } = site;
        return createTransfer(counter, { kind: 'take', peer: place, epochMs, given, sentMs, repliedMs });
      }),
    );
    for (const [at, { one, loan }] of lent.entries()) {
      const reply = replies[at];
      if (reply?.code === 'OK') counts.borrowed += loan.given - (one.site.taken[place] ?? 0);
      else if (reply?.code === 'OVER_LIMIT') counts.untimely++;
    }
  }

  #run(debits: readonly Debit[]): Eventual<readonly Reply[]> {
    const { ledger, timeoutMs } = this.#options;
    if (debits.length === 0) return [];
    return after(ledger.debit(debits, { spend: 'each', timeoutMs }), (replies) => replies);
  }
}

/** Maximum time between two exchanges, the slot over which demand is measured. */
const EXCHANGE_INTERVAL_MS = SLOT_MS;

/** Whether the peer has yet to learn that its tokens arrived, until which its bucket cannot refill them. */
function isUnconfirmed({ counter, site }: CheckedCounter, place: number): boolean {
  const taken = site.taken[place] ?? 0;
  if (!isBucket(counter.limit) || taken === 0) return false;
  const known = counter.confirmed[place];
  return known?.epochMs !== site.epochMs || known.taken !== taken;
}

const readReport = (reply: Reply | undefined): SiteReport | undefined =>
  reply && reply.code !== 'UNAVAILABLE' ? reply.site : undefined;

/** One side of a transfer on the counter. @param hits  maximum to lend */
export function createTransfer(
  { key, limit }: Pick<LowCounter, 'key' | 'limit'>,
  transfer: SiteTransfer,
  hits = 0,
): Debit {
  const kind = transfer.kind === 'read' ? 'peek' : 'spend';
  return { kind, key, limit, hits, blocks: false, transfer, policy: {} };
}

/** Time for which a failure counts; without further calls, none is needed. */
const FAILING_MS = 30_000;

/** @param nowMs  time on the monotonic clock */
export function peerReport({ site, counts }: Peer, nowMs: number): PeerReport {
  const { askedAtMs, answeredAtMs, failedAtMs, ...rest } = counts;
  const agoMs = (atMs: number): number => (atMs === 0 ? -1 : Math.round(nowMs - atMs));
  return {
    site,
    ...rest,
    failing: nowMs - failedAtMs < FAILING_MS ? counts.failing : 0,
    silentMs: agoMs(answeredAtMs),
    askedMsAgo: agoMs(askedAtMs),
  };
}

/** The part of a ledger that decisions use. */
type DecidingLedger = NonNullable<DeciderPart['ledger']>;

/** Wraps a ledger: hits for counters that run low are borrowed from other sites. Costs nothing while none is low. */
export function borrowingLedger(
  ledger: DecidingLedger,
  low: LowCounters,
  borrower: Borrower,
): { readonly ledger: DecidingLedger; close(): Promise<void> } {
  let running: Promise<void> | undefined;
  const exchanges = intermittent(EXCHANGE_INTERVAL_MS, () => {
    const counters = low.all();
    running ??= borrower.exchange(counters).finally(() => {
      running = undefined;
    });
    return counters.length > 0;
  });
  const watched: DecidingLedger = {
    debit(request, how) {
      const entries = ledger.debit(request, how);
      if (!request.some(({ limit }) => isSiteShare(limit))) return entries;
      return after(entries, (all) => {
        for (const [at, debit] of request.entries()) if (low.note(debit, all[at])) exchanges.wake();
        return all;
      });
    },
    refund: (receipt) => ledger.refund(receipt),
    atomic: ledger.atomic,
    ...(ledger.recall && { recall: ledger.recall.bind(ledger) }),
  };
  return {
    ledger: watched,
    async close() {
      exchanges.close();
      await running;
      await borrower.ended();
    },
  };
}

/** The request of a site for hits of one of its counters. */
function createAsk(
  key: CounterKey,
  prefix: string,
  { of, requestsPerUnit, windowMs, burst }: SiteShareLimit,
  rest: Pick<SiteAsk, 'epoch_ms' | 'taken' | 'hits'>,
): SiteAsk {
  const limit = { algorithm: of, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst };
  return { counter: key.slice(prefix.length), ...limit, ...rest };
}
