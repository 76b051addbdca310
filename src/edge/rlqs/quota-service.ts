import { createHash, randomUUID } from 'node:crypto';
import { strategyOf } from '../../engine/rules/match/strategy.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { ShareStore } from '../../engine/shares/share-store.ts';
import type { ShareTerms } from '../../engine/shares/shares.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { BucketPlan } from './buckets.ts';
import { type FoundBucket, findBucket } from './find-bucket.ts';
import type { BucketUsage } from './messages.ts';
import { noQuotaCounts, type QuotaCounts } from './quota-counts.ts';
import { NO_RECEIVER, type QuotaReceiver, QuotaReception, type QuotaTransport } from './quota-reception.ts';
import { type QuotaQuery, type QuotaReport, reportQuotas } from './quota-report.ts';
import type { ProxyNames, QuotaContext } from './quota-stream.ts';
import { Turns } from './turns.ts';

/** The metadata of a stream with the name of its proxy. */
export const PROXY_HEADER = 'x-weir-proxy';

/** The maximum time that an assignment and the next report are in transit, in total. */
const TRANSIT_MS = 2_000;
/** Three reporting intervals of Envoy. */
const SILENCE_MS = 15_000;

export const shareTerms = (ttlMs: number): ShareTerms => ({ ttlMs, transitMs: TRANSIT_MS, silenceMs: SILENCE_MS });

interface QuotaServiceOptions {
  readonly rules: () => RuleTree | undefined;
  readonly keyOf: PoolKeys;
  readonly unknown: 'allow' | 'deny';
  /** Empty: all domains. */
  readonly domains: readonly string[];
  readonly maxBuckets: number;
  readonly shares: ShareStore;
  readonly terms: ShareTerms;
  readonly monotonicMs: () => number;
  readonly onUnavailable: (reason: string) => void;
}

/** The name of a pool in the store. */
export type PoolKeys = (fillMs: number, domain: string, entries: BucketUsage['pairs']) => string;

/** Serves `RateLimitQuotaService/StreamRateLimitQuotas`, independent of the transport. */
export class QuotaService {
  readonly counts: QuotaCounts = noQuotaCounts();
  readonly #context: QuotaContext;
  readonly #names = new Set<string>();
  readonly #receptions = new Set<QuotaReception>();
  #isClosed = false;

  constructor(options: QuotaServiceOptions) {
    const { rules, domains, unknown, maxBuckets, shares, terms, monotonicMs, onUnavailable } = options;
    this.#context = {
      ...{ rules, unknown, maxBuckets, shares, terms, monotonicMs, onUnavailable, counts: this.counts },
      turns: new Turns(),
      plan: (tree, domain, pairs, work) =>
        tree && (domains.length === 0 || domains.includes(domain))
          ? planOf(options, domain, findBucket(tree, domain, pairs, work))
          : undefined,
    };
  }

  /** Ends all streams, and refuses new ones: proxies keep their shares, and open a stream elsewhere. */
  close(): void {
    this.#isClosed = true;
    for (const reception of this.#receptions) reception.end();
  }

  open(transport: QuotaTransport): QuotaReceiver {
    if (this.#isClosed) {
      transport.fail(status.UNAVAILABLE, 'the service is shutting down');
      return NO_RECEIVER;
    }
    const names = this.#claim(transport.name);
    const reception = new QuotaReception(this.#context, transport, names, () => {
      this.counts.streams--;
      this.#names.delete(names.holder);
      this.#receptions.delete(reception);
    });
    this.counts.streams++;
    this.#receptions.add(reception);
    return reception;
  }

  /** The assignments and the use of the proxies connected to this process. */
  report(query: QuotaQuery): Promise<QuotaReport> {
    const { terms, monotonicMs } = this.#context;
    const streams = Array.from(this.#receptions).flatMap(({ stream }) => stream ?? []);
    return reportQuotas(streams, query, { ttlMs: terms.ttlMs, nowMs: monotonicMs() });
  }

  /**
   * A name that an open stream has is not given to another one: their shares would be counted as one. A placeholder
   * that a proxy did not replace (`%…%`) is no name: every proxy sends the same.
   */
  #claim(name: string | undefined): ProxyNames {
    const written = nameOf(name);
    const known = written === undefined ? undefined : digest(written);
    const isNamed = known !== undefined && !this.#names.has(known);
    const holder = isNamed ? known : digest(randomUUID());
    this.#names.add(holder);
    return { holder, isNamed, name: written };
  }
}

const nameOf = (written: string | undefined): string | undefined =>
  written === '' || written?.includes('%') ? undefined : written;

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 16);

/** Undefined: no rule can be applied to the bucket. */
function planOf(
  { keyOf }: Pick<QuotaServiceOptions, 'keyOf'>,
  domain: string,
  found: FoundBucket | undefined,
): BucketPlan | undefined {
  if (!found) return undefined;
  const strategy = strategyOf(found.rule, found.limits);
  if (strategy.kind === 'unsupported') return undefined;
  const rule = found.rule.path;
  if (strategy.kind !== 'shared') return { kind: strategy.kind, rule };
  return { ...strategy, rule, key: keyOf(strategy.pool.fillMs, domain, found.entries) };
}
