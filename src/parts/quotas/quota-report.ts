import { inTurns } from '../../base/slices.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { ProxyQuota } from '../lab/answers/quotas.ts';
import type { QuotaReport } from './answers.ts';
import { bucketId, type ProxyBucket } from './buckets.ts';
import type { QuotaStream } from './quota-stream.ts';

/** A filter whose absent fields match everything. */
export interface QuotaQuery {
  readonly domain?: string;
  readonly rule?: string;
  readonly entries?: readonly Entry[];
  readonly count: number;
}

/** The part of a stream that reports use. */
type ReportedStream = Pick<QuotaStream, 'proxy' | 'domain' | 'buckets'>;

interface Found {
  readonly stream: ReportedStream;
  readonly bucket: ProxyBucket;
}

/** Number of buckets checked in one turn of the event loop. */
const BUCKETS_PER_TURN = 500;

/** Checks all buckets, in slices, or only those with the entries. */
export async function reportQuotas(
  streams: Iterable<ReportedStream>,
  query: QuotaQuery,
  now: { readonly nowMs: number; readonly ttlMs: number },
): Promise<QuotaReport> {
  let highest: Found[] = [];
  let found = 0;
  for await (const slice of inTurns(matchingBuckets(streams, query), BUCKETS_PER_TURN)) {
    const own = slice.filter(({ bucket }) => query.rule === undefined || bucket.plan.rule === query.rule);
    found += own.length;
    highest = [...highest, ...own].sort((one, other) => other.bucket.demand - one.bucket.demand).slice(0, query.count);
  }
  return { quotas: highest.map((one) => describe(one, now)), more: found - highest.length };
}

function* matchingBuckets(streams: Iterable<ReportedStream>, { domain, entries }: QuotaQuery): Iterable<Found> {
  const id = entries && bucketId(entries);
  for (const stream of streams) {
    if (domain !== undefined && stream.domain !== domain) continue;
    if (id === undefined) for (const bucket of stream.buckets.values()) yield { stream, bucket };
    else {
      const bucket = stream.buckets.get(id);
      if (bucket) yield { stream, bucket };
    }
  }
}

function describe({ stream, bucket }: Found, { nowMs, ttlMs }: { nowMs: number; ttlMs: number }): ProxyQuota {
  const { plan, assigned, demand, used, pairs, reportedAtMs } = bucket;
  const { proxy, domain } = stream;
  const perSecond = plan.kind === 'shared' ? 1_000 / plan.pool.fillMs : 0;
  const isExpired = assigned !== undefined && nowMs - assigned.atMs > ttlMs;
  const kind = assigned?.kind === 'token_bucket' ? 'share' : assigned?.kind === 'allow' ? 'allow' : 'deny';
  return {
    ...(proxy !== undefined && { proxy }),
    domain,
    entries: pairs,
    ...(plan.rule !== undefined && { rule: plan.rule }),
    assigned: !assigned ? 'none' : isExpired ? 'expired' : kind,
    ...(assigned && kind === 'share' && { share: assigned.units * perSecond, burst: assigned.burst }),
    ...(plan.kind === 'shared' && { rate: plan.pool.units * perSecond }),
    ...(demand >= 0 && { demand, used }),
    reportedMsAgo: Math.max(Math.round(nowMs - reportedAtMs), 0),
  };
}
