import type { Monotonic } from '../../base/clock.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { SiteReport } from '../../engine/holds/reports.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { createTransfer } from './borrower.ts';
import type { LowCounter } from './low-counters.ts';
import type { SiteShareLimit } from './site-share.ts';

/** A process's report on one counter that sites share, in whole hits, or in tokens for a bucket. */
export interface SharedCounter {
  readonly key: CounterKey;
  readonly epochMs: number;
  /** Time until moved hits expire. */
  readonly leftMs: number;
  /** Hits that this site may still admit of its share; negative if it has admitted hits in advance. */
  readonly room: number;
  readonly used: number;
  /** All sites by place, including this one. */
  readonly sites: readonly SharedPlace[];
}

export interface SharedPlace {
  /** Hits that this site took from that one, and gave to it, in the epoch; 0 for itself. */
  readonly taken: number;
  readonly given: number;
  /** Hits that it had used by its last answer; absent without an answer in this epoch. */
  readonly used?: number;
  readonly usedMsAgo?: number;
}

export interface SharedQuestion {
  readonly count: number;
  /** Absent: all. */
  readonly domains?: readonly string[] | undefined;
}

export interface SharedReport {
  readonly counters: readonly SharedCounter[];
  /** Number of counters that are not listed. */
  readonly more: number;
}

/** Sources of counters, which this process borrows or lends hits for. */
interface SharedSources {
  readonly ledger: Pick<Ledger, 'debit'>;
  readonly timeoutMs: number;
  readonly monotonicMs: Monotonic;
  readonly counters: () => Iterable<SharedSource>;
}

interface SharedSource {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  readonly uses?: Readonly<LowCounter['uses']>;
}

/** Reads at most `count` of the counters, leaving out those that cannot be read. */
export async function reportShared(
  { ledger, timeoutMs, monotonicMs, counters }: SharedSources,
  count: number,
): Promise<SharedReport> {
  const known = new Map<CounterKey, SharedSource>();
  for (const one of counters()) if (!known.has(one.key)) known.set(one.key, one);
  const listed = [...known.values()].slice(0, count);
  if (listed.length === 0) return { counters: [], more: 0 };
  const debits = listed.map((one) => createTransfer(one, { kind: 'read' }));
  const replies = await ledger.debit(debits, { spend: 'each', timeoutMs });
  const nowMs = monotonicMs();
  const described = listed.flatMap((one, at): SharedCounter[] => {
    const reply = replies[at];
    return reply && reply.code !== 'UNAVAILABLE' && reply.site ? [describe(one, reply.site, nowMs)] : [];
  });
  return { counters: described, more: known.size - described.length };
}

function describe({ key, limit, uses = [] }: SharedSource, report: SiteReport, nowMs: number): SharedCounter {
  const { epochMs, leftMs, room, used, taken, given } = report;
  const sites = Array.from({ length: limit.sites }, (_, place): SharedPlace => {
    const use = uses[place];
    const moved = { taken: taken[place] ?? 0, given: given[place] ?? 0 };
    if (place === limit.site) return { ...moved, used, usedMsAgo: 0 };
    return use?.epochMs === epochMs ? { ...moved, used: use.used, usedMsAgo: Math.round(nowMs - use.atMs) } : moved;
  });
  return { key, epochMs, leftMs, room, used, sites };
}
