import { RequestWork } from '../../base/request-work.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { QuotaCounts } from '../../operate/observe/quota-counts.ts';
import { type BucketPlan, bucketId, digest, type PlanSource, ProxyBucket, toShareReport } from './buckets.ts';
import { type BucketAction, type BucketUsage, readBucketUsage, type UsageReport } from './messages.ts';
import type { PoolReport, ShareReply, ShareStore } from './share-store.ts';
import type { ShareTerms } from './shares.ts';
import type { Turns } from './turns.ts';

/** Dependencies shared by the streams of all proxies. */
export interface QuotaContext {
  readonly rules: () => RuleTree | undefined;
  /** Changes with the overrides. */
  readonly revision: () => number;
  readonly plan: (
    rules: RuleTree | undefined,
    domain: string,
    pairs: BucketUsage['pairs'],
    work: RequestWork,
  ) => BucketPlan | undefined;
  /** Action for buckets without a plan. */
  readonly unknown: 'allow' | 'deny';
  readonly shares: ShareStore;
  readonly terms: ShareTerms;
  readonly maxBuckets: number;
  readonly monotonicMs: () => number;
  readonly counts: QuotaCounts;
  readonly turns: Turns;
  readonly onUnavailable: (reason: string) => void;
}

export interface ProxyNames {
  /** Identity of the proxy among the holders of its buckets. */
  readonly holder: string;
  /** Name as sent by the proxy. */
  readonly name: string | undefined;
  /** Whether the name is the same on later connections. */
  readonly isNamed: boolean;
}

interface QuotaCall extends ProxyNames {
  readonly write: (actions: readonly BucketAction[]) => void;
  /** Charges memory to the connection, or releases it if negative. */
  readonly charge: (bytes: number) => void;
  readonly isOver: () => boolean;
  /** Waits for a turn of the event loop, or resolves immediately when the call is over. */
  readonly turn: () => Promise<void>;
}

/** The current report, undefined once its stream has ended so that pending work does not keep it alive. */
export interface CurrentReport {
  report: UsageReport | undefined;
}

/** Number of reports without requests after which a bucket is abandoned. */
const IDLE_REPORTS = 3;

/** Handles the reports of one proxy, and sends assignments for its buckets when they change or expire. */
export class QuotaStream {
  readonly #context: QuotaContext;
  readonly #call: QuotaCall;
  readonly domain: string;
  /** By `bucketId`. */
  readonly buckets = new Map<string, ProxyBucket>();

  /** @param domain  the domain of all its buckets */
  constructor(context: QuotaContext, call: QuotaCall, domain: string) {
    this.#context = context;
    this.#call = call;
    this.domain = domain;
  }

  /**
   * Handles a report, its first slice without delay. Reports of a stream must be handled in sequence.
   *
   * @param arrivedMs  time of arrival on the monotonic clock
   * @throws RangeError if a usage is malformed; the usages before it have been counted
   */
  async handle(current: CurrentReport, arrivedMs: number): Promise<void> {
    this.#context.counts.reports++;
    for (let at: number | undefined = 0; at !== undefined; ) {
      if (at > 0) await this.#call.turn();
      if (this.#call.isOver()) return;
      at = await this.#handleSlice(current, at, arrivedMs);
    }
  }

  /** Name set by the proxy's operator, if any. */
  get proxy(): string | undefined {
    return this.#call.name;
  }

  /** Drops the buckets; their shares count until they expire. */
  close(): void {
    this.#context.counts.buckets -= this.buckets.size;
    this.buckets.clear();
  }

  /**
   * Handles a slice. The usages before a malformed one are counted and answered before the error is thrown.
   *
   * @returns the index in the positions of the next slice, or undefined without one
   */
  async #handleSlice(current: CurrentReport, first: number, arrivedMs: number): Promise<number | undefined> {
    const slice = new Slice();
    try {
      return this.#readSlice(current, first, arrivedMs, slice);
    } finally {
      await this.#send(slice);
    }
  }

  async #send(slice: Slice): Promise<void> {
    if (slice.shared.length > 0) await this.#assignShares(slice);
    if (slice.actions.length > 0 && !this.#call.isOver()) this.#call.write(slice.actions);
  }

  /** @returns the index in the positions at which the slice is full, or undefined if the report ends before */
  #readSlice({ report }: CurrentReport, first: number, arrivedMs: number, slice: Slice): number | undefined {
    if (!report) return undefined;
    const { bytes, positions } = report;
    let at = first;
    for (; at < positions.length && !slice.isFull; at += 2) {
      const [from = 0, to = 0] = [positions[at], positions[at + 1]];
      slice.countUsage(to - from);
      this.#handleUsage(readBucketUsage(bytes, from, to), arrivedMs, slice);
    }
    return at < positions.length ? at : undefined;
  }

  #handleUsage(usage: BucketUsage | undefined, arrivedMs: number, slice: Slice): void {
    const { counts, unknown, terms, shares } = this.#context;
    if (!usage) {
      counts.unknown++; // its id exceeds the limits, and cannot be sent in an answer
      return;
    }
    const bucket = this.#bucketOf(usage, slice);
    if (!bucket) {
      counts.unknown++;
      slice.actions.push({ kind: unknown, pairs: usage.pairs, ttlMs: terms.ttlMs });
      return;
    }
    const reported = { bucket, usage, use: bucket.noteUse(usage, arrivedMs), arrivedMs };
    bucket.idleReports = usage.requests > 0 ? 0 : bucket.idleReports + 1;
    const isIdle = bucket.idleReports >= IDLE_REPORTS;
    const { plan } = bucket;
    if (plan.kind === 'shared') {
      slice.shared.push({ reported, step: this.#stepOf(reported, plan, isIdle) });
      slice.countHolders(shares.holders(plan.key));
    } else if (!isIdle) this.#assignFixed(bucket, plan.kind, slice.actions);
    if (isIdle) this.#abandon(bucket, slice.actions);
  }

  #bucketOf({ pairs }: BucketUsage, slice: Slice): ProxyBucket | undefined {
    const { maxBuckets, counts, monotonicMs } = this.#context;
    const id = bucketId(pairs);
    const known = this.buckets.get(id);
    if (known) {
      this.#replan(known, slice);
      return known;
    }
    if (this.buckets.size >= maxBuckets || this.#call.isOver()) return undefined;
    const source = this.#planSource();
    const bucket = new ProxyBucket(pairs, source, this.#planFor(source.rules, pairs, slice), monotonicMs());
    this.buckets.set(id, bucket);
    counts.buckets++;
    this.#call.charge(bucket.bytes);
    return bucket;
  }

  #planFor(rules: RuleTree | undefined, pairs: BucketUsage['pairs'], slice: Slice): BucketPlan {
    const plan = this.#context.plan(rules, this.domain, pairs, new RequestWork((units) => slice.countWork(units)));
    if (plan) return plan;
    this.#context.counts.unknown++;
    return { kind: this.#context.unknown };
  }

  #planSource(): PlanSource {
    const { rules, revision } = this.#context;
    return { rules: rules(), revision: revision() };
  }

  /**
   * Plans a bucket again if rules or overrides have changed. Drops an assignment from another pool, which does not apply
   * to the new one.
   */
  #replan(bucket: ProxyBucket, slice: Slice): void {
    const { rules, revision } = this.#planSource();
    if (bucket.rules === rules && bucket.revision === revision) return;
    const before = bucket.plan;
    bucket.rules = rules;
    bucket.revision = revision;
    bucket.plan = this.#planFor(rules, bucket.pairs, slice);
    const isKept =
      before.kind === 'shared'
        ? bucket.plan.kind === 'shared' && before.key === bucket.plan.key
        : before.kind === bucket.plan.kind;
    if (!isKept) bucket.assigned = undefined;
  }

  /** Plans all buckets again, and sends what differs from the assignments of proxies without waiting for a report. */
  async replanAll(): Promise<void> {
    const asker = {};
    const buckets = this.buckets.values();
    for (let next = buckets.next(); !next.done; ) {
      await this.#context.turns.next(asker);
      const slice = new Slice();
      for (; !next.done && !slice.isFull; next = buckets.next()) this.#replanNow(next.value, slice);
      await this.#send(slice);
    }
  }

  /** Asks for the share of a bucket as a report without requests does. */
  #replanNow(bucket: ProxyBucket, slice: Slice): void {
    const { plan: before, assigned, pairs } = bucket;
    slice.countWork(1);
    this.#replan(bucket, slice);
    const { plan } = bucket;
    if (!assigned || isSamePlan(before, plan)) return;
    if (plan.kind !== 'shared') return this.#assignFixed(bucket, plan.kind, slice.actions);
    const usage: BucketUsage = { pairs, elapsedMs: 0, requests: 0, allowed: 0 };
    const reported = { bucket, usage, use: usage, arrivedMs: this.#context.monotonicMs() };
    slice.shared.push({ reported, step: this.#stepOf(reported, plan, false) });
  }

  #stepOf(reported: Reported, plan: BucketPlan & { kind: 'shared' }, leaves: boolean): PoolReport {
    const { bucket, usage, use, arrivedMs } = reported;
    const { key, pool, isOneOfSeveral } = plan;
    const { holder: proxy, isNamed } = this.#call;
    const holder = isOneOfSeveral ? digest(proxy + bucket.id) : proxy;
    const elapsed = { arrivedMs, usageMs: usage.elapsedMs };
    return {
      key,
      pool,
      report: toShareReport(bucket, use, elapsed, { terms: this.#context.terms, holder, isNamed, leaves }),
    };
  }

  #assignFixed(bucket: ProxyBucket, kind: 'allow' | 'deny', actions: BucketAction[]): void {
    const { terms, monotonicMs } = this.#context;
    const { assigned } = bucket;
    const nowMs = monotonicMs();
    if (assigned?.kind === kind && nowMs - assigned.atMs < terms.ttlMs / 2) return;
    bucket.assigned = { kind, number: 0, atMs: nowMs, units: 0, burst: 0 };
    actions.push({ kind, pairs: bucket.pairs, ttlMs: terms.ttlMs });
    this.#context.counts.assignments++;
  }

  #abandon(bucket: ProxyBucket, actions: BucketAction[]): void {
    if (this.buckets.delete(bucket.id)) {
      this.#context.counts.buckets--;
      this.#call.charge(-bucket.bytes);
    }
    actions.push({ kind: 'abandon', pairs: bucket.pairs });
    this.#context.counts.abandoned++;
  }

  async #assignShares({ shared, actions }: Slice): Promise<void> {
    const replies = await this.#context.shares.step(shared.map(({ step }) => step));
    for (const [at, { reported, step }] of shared.entries()) {
      const action = this.#shareAction(reported.bucket, step, replies[at]);
      if (action) actions.push(action);
    }
  }

  #shareAction(bucket: ProxyBucket, { pool, report }: PoolReport, reply: ShareReply): BucketAction | undefined {
    const { terms, monotonicMs, counts, onUnavailable } = this.#context;
    if (!reply || report.leaves) return undefined;
    if ('reason' in reply) {
      counts.unavailable++;
      onUnavailable(reply.reason);
      return undefined;
    }
    const { number, units, burst } = reply;
    const kind = units === 0 ? 'deny' : 'token_bucket';
    bucket.assigned = { kind, number, units, burst, atMs: monotonicMs() };
    counts.assignments++;
    const { pairs } = bucket;
    const { ttlMs } = terms;
    if (kind === 'deny') return { kind, pairs, ttlMs };
    return { kind, pairs, ttlMs, maxTokens: burst, tokensPerFill: units, fillMs: pool.fillMs };
  }
}

function isSamePlan(one: BucketPlan, other: BucketPlan): boolean {
  if (one.kind !== 'shared' || other.kind !== 'shared') return one.kind === other.kind;
  return one.key === other.key && one.pool.units === other.pool.units && one.pool.burst === other.pool.burst;
}

/** A usage of a known bucket. */
interface Reported {
  readonly bucket: ProxyBucket;
  readonly usage: BucketUsage;
  /** Use in this report and in previous ones that were too short for a rate. */
  readonly use: ReturnType<ProxyBucket['noteUse']>;
  readonly arrivedMs: number;
}

/** Work for reports in one turn of the event loop, about a millisecond; the usage that reaches it is the last. */
const SLICE_UNITS = 200;
/** Octets of a usage, and holders read by a step of its pool, per unit of work. */
const OCTETS_PER_UNIT = 320;
const HOLDERS_PER_UNIT = 8;

/** The part of a report that is handled in one turn of the event loop. */
class Slice {
  /** Actions to send to the proxy. */
  readonly actions: BucketAction[] = [];
  readonly shared: { readonly reported: Reported; readonly step: PoolReport }[] = [];
  #units = 0;

  get isFull(): boolean {
    return this.#units >= SLICE_UNITS;
  }

  countUsage(octets: number): void {
    this.#units += 1 + octets / OCTETS_PER_UNIT;
  }

  /** @param units  see `RequestWork` */
  countWork(units: number): void {
    this.#units += units;
  }

  countHolders(holders: number): void {
    this.#units += holders / HOLDERS_PER_UNIT;
  }
}
