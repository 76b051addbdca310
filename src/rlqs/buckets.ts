import type { Entry } from '../rules/match.ts';
import type { RuleTree } from '../rules/tree.ts';
import { MIN_ELAPSED_MS, type Pool } from '../shares/shares.ts';
import type { BucketAction, BucketUsage } from './messages.ts';

/** How a bucket is handled: as its rule says, or as buckets without one. */
export type BucketPlan =
  | { readonly kind: 'allow' | 'deny'; readonly rule?: string }
  | { readonly kind: 'shared'; readonly rule: string; readonly key: string; readonly pool: Pool };

export interface Assigned {
  readonly kind: BucketAction['kind'];
  readonly number: number;
  readonly atMs: number;
  /** Of a share. */
  readonly units: number;
  readonly burst: number;
}

/** A bucket of one proxy, from its first report until it is abandoned. */
export interface ProxyBucket {
  readonly id: string;
  readonly pairs: readonly Entry[];
  /** Memory charged for it. */
  readonly bytes: number;
  /** When it was first reported, on the monotonic clock. */
  readonly knownSinceMs: number;
  /** The rules that the plan is made from. */
  rules: RuleTree | undefined;
  plan: BucketPlan;
  /** Reports without a request, one after the other. */
  idleReports: number;
  /** The last assignment that was sent; absent: none was. */
  assigned: Assigned | undefined;
  /** When its last report arrived, on the monotonic clock; 0: none has. */
  reportedAtMs: number;
  /** Per second, over its last reports; -1: unknown. */
  demand: number;
  used: number;
  /** What its last reports say of a time that is too short for rates. */
  unmeasured: Use;
}

/** Requests, those allowed, and the time that they took. */
export interface Use {
  readonly requests: number;
  readonly allowed: number;
  readonly elapsedMs: number;
}

export const NO_USE: Use = { requests: 0, allowed: 0, elapsedMs: 0 };

/** Memory of a bucket besides its texts. Measured over 10,000 buckets of two pairs: 1.5 KB with their texts. */
const BUCKET_BYTES = 1_408;

/** Two bytes for each character, in the pairs and in the id. */
const BYTES_PER_CHARACTER = 4;

/** Names a bucket, whatever the order of its pairs. */
export function bucketId(pairs: readonly Entry[]): string {
  const sorted = pairs.toSorted((one, other) => (one.key < other.key ? -1 : 1));
  return sorted.map(({ key, value }) => `${key.length}:${key}${value.length}:${value}`).join('');
}

/**
 * Keeps what a report says of the bucket's use. Requests of an unknown time, as in first reports, say nothing.
 *
 * @returns the use since the last one that was returned; none where the time is unknown or too short for a rate
 */
export function noteUse(bucket: ProxyBucket, usage: BucketUsage, arrivedMs: number): Use {
  const isFirst = bucket.reportedAtMs === 0;
  const sinceMs = isFirst ? usage.elapsedMs : arrivedMs - bucket.reportedAtMs;
  bucket.reportedAtMs = arrivedMs;
  if (isFirst && sinceMs <= 0) return NO_USE;
  const before = bucket.unmeasured;
  const requests = before.requests + usage.requests;
  const allowed = before.allowed + usage.allowed;
  const elapsedMs = before.elapsedMs + sinceMs;
  const use = { requests, allowed, elapsedMs };
  if (elapsedMs < MIN_ELAPSED_MS) {
    bucket.unmeasured = use;
    return NO_USE;
  }
  bucket.demand = (requests * 1_000) / elapsedMs;
  bucket.used = (allowed * 1_000) / elapsedMs;
  bucket.unmeasured = NO_USE;
  return use;
}

export const bucketBytes = (id: string): number => BUCKET_BYTES + BYTES_PER_CHARACTER * id.length;
