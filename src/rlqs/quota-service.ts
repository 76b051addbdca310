import { createHash, randomUUID } from 'node:crypto';
import { status } from '../grpc-status.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { ShareStore } from '../shares/share-store.ts';
import type { ShareTerms } from '../shares/shares.ts';
import type { BucketPlan } from './buckets.ts';
import { findBucket } from './find-bucket.ts';
import { type BucketAction, type BucketUsage, ReportTooLong, readUsageReport } from './messages.ts';
import { noQuotaCounts, type QuotaCounts } from './quota-counts.ts';
import { type QuotaQuery, type QuotaReport, reportQuotas } from './quota-report.ts';
import { type QuotaCall, type QuotaContext, QuotaStream } from './quota-stream.ts';
import { strategyOf } from './strategy.ts';
import { Turns } from './turns.ts';

/** A stream of one proxy, as the transport has it. */
export interface QuotaTransport {
  /** The value of PROXY_HEADER; undefined: the proxy has no name. */
  readonly name: string | undefined;
  readonly write: (actions: readonly BucketAction[]) => void;
  readonly charge: (bytes: number) => void;
  readonly fail: (code: status, details: string) => void;
  /** Ends the stream with OK. */
  readonly end: () => void;
}

/** Takes what a proxy sends. */
export interface QuotaReceiver {
  /** A message RateLimitQuotaUsageReports; owned by the receiver. */
  report(bytes: Buffer): void;
  close(): void;
}

/** The metadata of a stream that names its proxy. */
export const PROXY_HEADER = 'x-weir-proxy';

/** Reports of a stream that wait while one is handled. More: RESOURCE_EXHAUSTED. */
const MAX_WAITING_REPORTS = 4;
/** A report may have so many more fields than a proxy may have buckets: those are handled as unknown ones. */
const FURTHER_USAGES = 1_024;
const MAX_DOMAIN_LENGTH = 1_024;
/** The longest that an assignment and the next report may be in transit together. */
const TRANSIT_MS = 2_000;
/** Three reports of Envoy. */
const SILENCE_MS = 15_000;

export const shareTerms = (ttlMs: number): ShareTerms => ({ ttlMs, transitMs: TRANSIT_MS, silenceMs: SILENCE_MS });

export interface QuotaServiceOptions {
  readonly rules: () => RuleTree | undefined;
  readonly keyOf: PoolKeys;
  readonly unknown: 'allow' | 'deny';
  /** Empty: all. */
  readonly domains: readonly string[];
  readonly maxBuckets: number;
  readonly shares: ShareStore;
  readonly terms: ShareTerms;
  readonly monotonicMs: () => number;
  readonly onUnavailable: (reason: string) => void;
}

/** Names a pool in the store. */
export type PoolKeys = (fillMs: number, domain: string, entries: BucketUsage['pairs']) => string;

/** Serves `RateLimitQuotaService/StreamRateLimitQuotas`, on any transport. */
export class QuotaService {
  readonly counts: QuotaCounts = noQuotaCounts();
  readonly #context: QuotaContext;
  readonly #names = new Set<string>();
  readonly #streams = new Set<QuotaStream>();
  readonly #ends = new Set<() => void>();
  #isClosed = false;

  constructor(options: QuotaServiceOptions) {
    const { rules, unknown, maxBuckets, shares, terms, monotonicMs, onUnavailable } = options;
    this.#context = {
      ...{ rules, unknown, maxBuckets, shares, terms, monotonicMs, onUnavailable, counts: this.counts },
      turns: new Turns(),
      plan: (tree, domain, pairs) => planOf(options, tree, domain, pairs),
    };
  }

  /** Ends all streams, and refuses new ones: proxies keep their shares, and open a stream elsewhere. */
  close(): void {
    this.#isClosed = true;
    for (const end of this.#ends) end();
  }

  open(transport: QuotaTransport): QuotaReceiver {
    if (this.#isClosed) {
      transport.fail(status.UNAVAILABLE, 'the service is shutting down');
      return { report: () => {}, close: () => {} };
    }
    const { holder, isNamed } = this.#claim(transport.name);
    this.counts.streams++;
    let stream: QuotaStream | undefined;
    let isOver = false;
    let waiting = 0;
    let handled: Promise<void> = Promise.resolve();
    const close = (): void => {
      if (isOver) return;
      isOver = true;
      this.counts.streams--;
      this.#names.delete(holder);
      this.#ends.delete(end);
      if (stream) this.#streams.delete(stream);
      stream?.close();
    };
    const end = (): void => {
      close();
      transport.end();
    };
    this.#ends.add(end);
    const fail = (code: status, details: string): void => {
      if (isOver) return;
      close();
      transport.fail(code, details);
    };
    const handle = async (bytes: Buffer, arrivedMs: number): Promise<void> => {
      const { turns, maxBuckets } = this.#context;
      await turns.next();
      if (isOver) return;
      const report = readUsageReport(bytes, maxBuckets + FURTHER_USAGES);
      if (!stream && !isDomain(report.domain))
        return fail(
          status.INVALID_ARGUMENT,
          `the first report must name a domain of 1 to ${MAX_DOMAIN_LENGTH} characters`,
        );
      stream ??= this.#begin(
        { ...transport, holder, isNamed, name: nameOf(transport.name), isOver: () => isOver },
        report.domain,
      );
      const { byteLength } = report.positions;
      transport.charge(byteLength);
      try {
        await stream.handle(report, arrivedMs);
      } finally {
        if (!isOver) transport.charge(-byteLength);
      }
    };
    const report = (bytes: Buffer): void => {
      if (waiting > MAX_WAITING_REPORTS)
        return fail(status.RESOURCE_EXHAUSTED, 'reports arrive faster than they are handled');
      const arrivedMs = this.#context.monotonicMs();
      waiting++;
      transport.charge(bytes.length);
      handled = handled
        .then(() => handle(bytes, arrivedMs))
        .catch((error: unknown) => fail(...failureOf(error)))
        .then(() => {
          waiting--;
          if (!isOver) transport.charge(-bytes.length);
        });
    };
    return { report, close };
  }

  /** What the proxies of this process have and use. */
  report(query: QuotaQuery): Promise<QuotaReport> {
    const { terms, monotonicMs } = this.#context;
    return reportQuotas(this.#streams, query, { ttlMs: terms.ttlMs, nowMs: monotonicMs() });
  }

  #begin(call: QuotaCall, domain: string): QuotaStream {
    const stream = new QuotaStream(this.#context, call, domain);
    this.#streams.add(stream);
    return stream;
  }

  /**
   * A name that another stream has at the moment names none of both: their shares would be one. So does a placeholder,
   * which every proxy sends as it is written.
   */
  #claim(name: string | undefined): { readonly holder: string; readonly isNamed: boolean } {
    const written = nameOf(name);
    const known = written === undefined ? undefined : digest(written);
    const isNamed = known !== undefined && !this.#names.has(known);
    const holder = isNamed ? known : digest(randomUUID());
    this.#names.add(holder);
    return { holder, isNamed };
  }
}

const nameOf = (written: string | undefined): string | undefined =>
  written === '' || written?.includes('%') ? undefined : written;

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 16);

const isDomain = (domain: string): boolean => domain.length > 0 && domain.length <= MAX_DOMAIN_LENGTH;

function failureOf(error: unknown): [status, string] {
  if (error instanceof ReportTooLong) return [status.RESOURCE_EXHAUSTED, error.message];
  if (error instanceof RangeError) return [status.INVALID_ARGUMENT, `the report cannot be decoded: ${error.message}`];
  return [status.INTERNAL, 'internal error'];
}

/** Undefined: no rule can be applied to the bucket. */
function planOf(
  { domains, keyOf }: Pick<QuotaServiceOptions, 'domains' | 'keyOf'>,
  rules: RuleTree | undefined,
  domain: string,
  pairs: BucketUsage['pairs'],
): BucketPlan | undefined {
  if (!rules || (domains.length > 0 && !domains.includes(domain))) return undefined;
  const found = findBucket(rules, domain, pairs);
  if (!found) return undefined;
  const strategy = strategyOf(found.rule, found.limits);
  if (strategy.kind === 'unsupported') return undefined;
  const rule = found.rule.path;
  if (strategy.kind !== 'shared') return { kind: strategy.kind, rule };
  return { ...strategy, rule, key: keyOf(strategy.pool.fillMs, domain, found.entries) };
}
