import { createHash } from 'node:crypto';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { Pool } from '../../engine/rules/match/strategy.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { BucketAction, BucketUsage } from './messages.ts';
import { MIN_ELAPSED_MS, resumeMs, type ShareReport, type ShareTerms } from './shares.ts';

/** The treatment of a bucket, by its rule or as a bucket without a rule. */
export type BucketPlan =
  | { readonly kind: 'allow' | 'deny'; readonly rule?: string }
  | {
      readonly kind: 'shared';
      readonly rule: string;
      readonly key: string;
      readonly pool: Pool;
      /** Whether other buckets of the proxy may hold shares of this pool. */
      readonly isOneOfSeveral: boolean;
    };

/** What plans are made from: the rules, and a revision of overrides. */
export interface PlanSource {
  readonly rules: RuleTree | undefined;
  readonly revision: number;
}

interface Assigned {
  readonly kind: BucketAction['kind'];
  readonly number: number;
  readonly atMs: number;
  /** Rate of a share; 0 for other assignments. */
  readonly units: number;
  readonly burst: number;
}

/** Requests, allowed requests, and the time in which they arrived. */
interface Use {
  readonly requests: number;
  readonly allowed: number;
  readonly elapsedMs: number;
}

const NO_USE: Use = { requests: 0, allowed: 0, elapsedMs: 0 };

/** Memory of a bucket without its texts; 10,000 buckets of two pairs take 1.5 KB each with their texts. */
const BUCKET_BYTES = 1_408;

/** Memory per character, at two bytes each in the pairs and in the id. */
const BYTES_PER_CHARACTER = 4;

/** A bucket of one proxy, from its first report until it is abandoned. */
export class ProxyBucket {
  readonly id: string;
  readonly pairs: readonly Entry[];
  /** Memory charged for the bucket. */
  readonly bytes: number;
  /** Time of its first report, on the monotonic clock. */
  readonly knownSinceMs: number;
  /** Rules and revision of overrides from which the plan was made. */
  rules: RuleTree | undefined;
  revision: number;
  plan: BucketPlan;
  /** Number of consecutive reports without a request. */
  idleReports = 0;
  /** Last assignment sent, if any. */
  assigned: Assigned | undefined = undefined;
  /** Time of its last report on the monotonic clock; 0 without one. */
  reportedAtMs = 0;
  /** Requests per second in its last reports; -1 if unknown. */
  demand = -1;
  used = -1;
  /** Use in its last reports while their time is too short for a rate. */
  #unmeasured = NO_USE;

  constructor(pairs: readonly Entry[], source: PlanSource, plan: BucketPlan, knownSinceMs: number) {
    this.id = bucketId(pairs);
    this.pairs = pairs;
    this.bytes = BUCKET_BYTES + BYTES_PER_CHARACTER * this.id.length;
    this.rules = source.rules;
    this.revision = source.revision;
    this.plan = plan;
    this.knownSinceMs = knownSinceMs;
  }

  /**
   * Adds a report's use to the bucket. Requests in an unknown time, as in first reports, are ignored.
   *
   * @returns the use since the last returned one; no use if the time is unknown or too short for a rate
   */
  noteUse(usage: BucketUsage, arrivedMs: number): Use {
    const isFirst = this.reportedAtMs === 0;
    const sinceMs = isFirst ? usage.elapsedMs : arrivedMs - this.reportedAtMs;
    this.reportedAtMs = arrivedMs;
    if (isFirst && sinceMs <= 0) return NO_USE;
    const before = this.#unmeasured;
    const requests = before.requests + usage.requests;
    const allowed = before.allowed + usage.allowed;
    const elapsedMs = before.elapsedMs + sinceMs;
    const use = { requests, allowed, elapsedMs };
    if (elapsedMs < MIN_ELAPSED_MS) {
      this.#unmeasured = use;
      return NO_USE;
    }
    this.demand = (requests * 1_000) / elapsedMs;
    this.used = (allowed * 1_000) / elapsedMs;
    this.#unmeasured = NO_USE;
    return use;
  }
}

/** The holder of a share as its stream knows it. */
interface ShareHolder extends Pick<ShareReport, 'holder' | 'leaves'> {
  readonly terms: ShareTerms;
  /** Whether its name is the same on later connections. */
  readonly isNamed: boolean;
}

/**
 * The report of a bucket to its pool.
 *
 * @param use        in its last reports
 * @param arrivedMs  the arrival of the last one, on the monotonic clock
 * @param usageMs    the time that it covers
 */
export function toShareReport(
  {
    assigned,
    knownSinceMs,
  }: Pick<ProxyBucket, 'knownSinceMs'> & { readonly assigned: Pick<Assigned, 'number' | 'atMs'> | undefined },
  { requests, elapsedMs }: Pick<Use, 'requests' | 'elapsedMs'>,
  { arrivedMs, usageMs }: { readonly arrivedMs: number; readonly usageMs: number },
  { holder, leaves, terms, isNamed }: ShareHolder,
): ShareReport {
  const leftMs = isNamed ? resumeMs(terms) : terms.ttlMs;
  return {
    holder,
    requests: Math.min(requests, Number.MAX_SAFE_INTEGER),
    elapsedMs,
    sent: assigned?.number ?? 0,
    isConfirmed: assigned !== undefined && arrivedMs - assigned.atMs >= terms.transitMs,
    isResumed: !assigned && usageMs > 0 && arrivedMs - knownSinceMs < leftMs,
    leaves,
  };
}

/** Identifies a bucket, regardless of the order of its pairs. */
export function bucketId(pairs: readonly Entry[]): string {
  const sorted = pairs.toSorted((one, other) => (one.key < other.key ? -1 : 1));
  return sorted.map(({ key, value }) => `${key.length}:${key}${value.length}:${value}`).join('');
}

/** The id of a holder of shares, made of a text. */
export const digest = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 16);
