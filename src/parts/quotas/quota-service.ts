import { randomUUID } from 'node:crypto';
import type { Overrides } from '../../engine/decide/overrides.ts';
import { bucketStrategy } from '../../engine/rules/match/strategy.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Incoming, OpenCall } from '../../h2/grpc/method.ts';
import { noQuotaCounts, type QuotaCounts } from '../../operate/observe/quota-counts.ts';
import type { QuotaReport } from './answers.ts';
import { type BucketPlan, digest } from './buckets.ts';
import { findBucket } from './find-bucket.ts';
import { type BucketAction, type BucketUsage, ReportTooLong, readUsageReport } from './messages.ts';
import { type QuotaQuery, reportQuotas } from './quota-report.ts';
import { type CurrentReport, type ProxyNames, type QuotaContext, QuotaStream } from './quota-stream.ts';
import type { ShareTerms } from './shares.ts';
import { Turns } from './turns.ts';

/** Maximum total time that an assignment and the next report are in transit. */
const TRANSIT_MS = 2_000;
/** Silence that ends a share, three reporting intervals of Envoy. */
const SILENCE_MS = 15_000;

export const shareTerms = (ttlMs: number): ShareTerms => ({ ttlMs, transitMs: TRANSIT_MS, silenceMs: SILENCE_MS });

interface QuotaServiceOptions extends Omit<QuotaContext, 'revision' | 'plan' | 'counts' | 'turns'> {
  /** Operators' overrides, which are sent to proxies at once. */
  readonly overrides?: Pick<Overrides, 'apply' | 'revision' | 'onChange'>;
  readonly keyOf: PoolKeys;
  /** Domains; empty for all. */
  readonly domains: readonly string[];
  /** Proxies allow everything. Default: false. */
  readonly shadowMode?: boolean;
}

/** Names a pool in the store. */
export type PoolKeys = (fillMs: number, domain: string, entries: BucketUsage['pairs']) => string;

/** Serves `RateLimitQuotaService/StreamRateLimitQuotas`, independent of the transport. */
export class QuotaService {
  readonly counts: QuotaCounts = noQuotaCounts();
  readonly #context: QuotaContext;
  readonly #names = new Set<string>();
  readonly #receptions = new Set<QuotaReception>();
  #isClosed = false;

  constructor(options: QuotaServiceOptions) {
    const { overrides, domains } = options;
    this.#context = {
      ...options,
      revision: () => overrides?.revision ?? 0,
      counts: this.counts,
      turns: new Turns(),
      plan: (tree, domain, pairs, work) =>
        tree && (domains.length === 0 || domains.includes(domain))
          ? planBucket(options, domain, findBucket(tree, { domain, pairs, overrides }, work))
          : undefined,
    };
    overrides?.onChange(() => {
      for (const { stream } of this.#receptions) void stream?.replanAll();
    });
  }

  /** Ends all streams and refuses new ones, so that proxies keep their shares and open a stream elsewhere. */
  close(): void {
    this.#isClosed = true;
    for (const reception of this.#receptions) reception.end();
  }

  /** @param name  value of PROXY_HEADER; undefined for a proxy without a name */
  open(call: QuotaCall, name: string | undefined): QuotaReceiver {
    const isReady = this.#context.rules() !== undefined;
    if (this.#isClosed || !isReady) {
      // the proxy keeps its assignments, and opens a stream at its next report
      call.fail(status.UNAVAILABLE, isReady ? 'the service is shutting down' : 'no rate limit configuration loaded');
      return NO_RECEIVER;
    }
    const names = this.#claim(name);
    const reception = new QuotaReception(this.#context, call, names, () => {
      this.counts.streams--;
      this.#names.delete(names.holder);
      this.#receptions.delete(reception);
    });
    this.counts.streams++;
    this.#receptions.add(reception);
    return reception;
  }

  /** Assignments and use of the proxies connected to this process. */
  report(query: QuotaQuery): Promise<QuotaReport> {
    const { terms, monotonicMs } = this.#context;
    const streams = Array.from(this.#receptions).flatMap(({ stream }) => stream ?? []);
    return reportQuotas(streams, query, { ttlMs: terms.ttlMs, nowMs: monotonicMs() });
  }

  /**
   * The name of an open stream is not given to another one, since their shares would be counted as one. A placeholder
   * that a proxy did not replace (`%…%`) is no name, as every proxy sends the same.
   */
  #claim(name: string | undefined): ProxyNames {
    const written = proxyName(name);
    const known = written === undefined ? undefined : digest(written);
    const isNamed = known !== undefined && !this.#names.has(known);
    const holder = isNamed ? known : digest(randomUUID());
    this.#names.add(holder);
    return { holder, isNamed, name: written };
  }
}

const proxyName = (written: string | undefined): string | undefined =>
  written === '' || written?.includes('%') ? undefined : written;

/** What an override leaves of a rule. */
const OVERRIDDEN = { unlimited: false, limits: [] };

/** The plan for a bucket, or undefined if no rule applies to it. */
function planBucket(
  { keyOf, shadowMode }: Pick<QuotaServiceOptions, 'keyOf' | 'shadowMode'>,
  domain: string,
  found: ReturnType<typeof findBucket>,
): BucketPlan | undefined {
  if (!found) return undefined;
  const rule = found.rule.path;
  if (shadowMode) return { kind: 'allow', rule };
  const strategy = bucketStrategy(found.isOverridden ? OVERRIDDEN : found.rule, found.limits);
  if (strategy.kind === 'unsupported') return undefined;
  if (strategy.kind !== 'shared') return { kind: strategy.kind, rule };
  const key = keyOf(strategy.pool.fillMs, domain, found.entries);
  return { ...strategy, rule, key, isOneOfSeveral: found.isShared };
}

/** A proxy's stream. */
type QuotaCall = Pick<OpenCall<readonly BucketAction[]>, 'send' | 'charge' | 'fail' | 'end'>;

/** Receives messages RateLimitQuotaUsageReports, which it owns. */
interface QuotaReceiver extends Incoming<Buffer> {
  close(): void;
}

/** Ignores all messages of a stream that has failed. */
const NO_RECEIVER: QuotaReceiver = { message: () => {}, end: () => {}, close: () => {} };

/**
 * Maximum number of reports of a stream that wait while one is handled; more fail the stream with RESOURCE_EXHAUSTED.
 */
const MAX_WAITING_REPORTS = 4;
/** Fields that a report may have beyond the buckets of a proxy, handled as unknown buckets. */
const FURTHER_USAGES = 1_024;
const MAX_DOMAIN_LENGTH = 1_024;

interface WaitingReport {
  readonly bytes: Buffer;
  /** Time of arrival on the monotonic clock. */
  readonly arrivedMs: number;
}

/** The reports of one proxy, handled in sequence. */
class QuotaReception implements QuotaReceiver {
  readonly #context: QuotaContext;
  readonly #call: QuotaCall;
  readonly #names: ProxyNames;
  readonly #onOver: () => void;
  #stream: QuotaStream | undefined;
  #isOver = false;
  /** The report that is handled, followed by waiting ones. */
  #reports: WaitingReport[] = [];
  readonly #current: CurrentReport = { report: undefined };

  /** @param onOver  called once, when nothing more is received */
  constructor(context: QuotaContext, call: QuotaCall, names: ProxyNames, onOver: () => void) {
    this.#context = context;
    this.#call = call;
    this.#names = names;
    this.#onOver = onOver;
  }

  /** Stream; undefined before the first report. */
  get stream(): QuotaStream | undefined {
    return this.#stream;
  }

  message(bytes: Buffer): void {
    if (this.#isOver) return;
    if (this.#reports.length > MAX_WAITING_REPORTS)
      return this.#fail(status.RESOURCE_EXHAUSTED, 'reports arrive faster than they are handled');
    this.#call.charge(bytes.length);
    const isFirst = this.#reports.push({ bytes, arrivedMs: this.#context.monotonicMs() }) === 1;
    if (isFirst) void this.#handleAll();
  }

  /** Drops all reports, including the one that is handled, as the stream is no longer charged for them. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reports = [];
    this.#current.report = undefined;
    this.#context.turns.leave(this);
    this.#onOver();
    this.#stream?.close();
  }

  /** Ends the stream with OK. */
  end(): void {
    this.close();
    this.#call.end();
  }

  #fail(code: status, details: string): void {
    if (this.#isOver) return;
    this.close();
    this.#call.fail(code, details);
  }

  /** Handles reports in sequence. While it waits, only fields that `close` clears refer to a report. */
  async #handleAll(): Promise<void> {
    do {
      await this.#turn();
      if (this.#isOver) return;
      const octets = this.#reports[0]?.bytes.length ?? 0;
      try {
        await this.#handleFirst();
      } catch (error) {
        this.#fail(...toFailure(error));
      }
      if (this.#isOver) return;
      this.#current.report = undefined;
      this.#call.charge(-octets);
      this.#reports.shift();
    } while (this.#reports.length > 0);
  }

  async #handleFirst(): Promise<void> {
    const arrivedMs = this.#reports[0]?.arrivedMs ?? 0;
    const stream = this.#readFirst();
    if (!stream) return;
    const byteLength = this.#current.report?.positions.byteLength ?? 0;
    this.#call.charge(byteLength);
    try {
      await stream.handle(this.#current, arrivedMs);
    } finally {
      if (!this.#isOver) this.#call.charge(-byteLength);
    }
  }

  /** @returns undefined if this ended the stream */
  #readFirst(): QuotaStream | undefined {
    const [first] = this.#reports;
    if (!first) return undefined;
    const report = readUsageReport(first.bytes, this.#context.maxBuckets + FURTHER_USAGES);
    if (!this.#stream && !isDomain(report.domain)) {
      this.#fail(
        status.INVALID_ARGUMENT,
        `the first report must name a domain of 1 to ${MAX_DOMAIN_LENGTH} characters`,
      );
      return undefined;
    }
    this.#current.report = report;
    const call = {
      ...this.#names,
      write: (actions: readonly BucketAction[]) => this.#call.send(actions),
      charge: (bytes: number) => this.#call.charge(bytes),
      isOver: () => this.#isOver,
      turn: () => this.#turn(),
    };
    this.#stream ??= new QuotaStream(this.#context, call, report.domain);
    return this.#stream;
  }

  #turn(): Promise<void> {
    return this.#isOver ? Promise.resolve() : this.#context.turns.next(this);
  }
}

const isDomain = (domain: string): boolean => domain.length > 0 && domain.length <= MAX_DOMAIN_LENGTH;

function toFailure(error: unknown): [status, string] {
  if (error instanceof ReportTooLong) return [status.RESOURCE_EXHAUSTED, error.message];
  if (error instanceof RangeError) return [status.INVALID_ARGUMENT, `the report cannot be decoded: ${error.message}`];
  return [status.INTERNAL, 'internal error'];
}
