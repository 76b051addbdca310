import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Cluster } from 'ioredis';
import type { Clock } from '../../../base/clock.ts';
import type { PoolReport, ShareReply, ShareStore } from '../../shares/share-store.ts';
import type { ShareTerms } from '../../shares/shares.ts';
import { within } from '../within.ts';
import type { RedisConnection } from './connect.ts';
import { describeError } from './reason.ts';

/** The twin of `stepShares`. */
const text = readFileSync(new URL('./shares.lua', import.meta.url), 'utf8');
const sha1 = createHash('sha1').update(text).digest('hex');

interface RedisSharesOptions {
  readonly terms: ShareTerms;
  readonly timeoutMs: number;
  /** Only for tests: replaces the clock of Redis. */
  readonly clock?: Clock;
}

/** Pools in a Redis that any number of processes share, stepped by one script on Redis's clock. */
export class RedisShares implements ShareStore {
  readonly #redis: RedisConnection;
  readonly #options: RedisSharesOptions;

  /** @param redis  closed by its owner */
  constructor(redis: RedisConnection, options: RedisSharesOptions) {
    this.#redis = redis;
    this.#options = options;
  }

  /** The script goes through them. */
  holders(): number {
    return 0;
  }

  async step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    if (this.#redis.status !== 'ready') return reports.map(() => ({ reason: 'Redis cannot be reached' }));
    const replies = await within(this.#options.timeoutMs, this.#stepAll(reports));
    return 'value' in replies ? replies.value : reports.map(() => ({ reason: replies.reason }));
  }

  /** One write for all on a single server; on a Cluster, each key may be on another node. */
  async #stepAll(reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    if (this.#redis instanceof Cluster) return Promise.all(reports.map((report) => this.#stepOne(report)));
    const pipeline = this.#redis.pipeline();
    for (const report of reports) pipeline.evalsha(sha1, 1, report.key, ...this.#buildArguments(report));
    const replies = (await pipeline.exec()) ?? [];
    return Promise.all(
      reports.map((report, at) => {
        const [error, reply] = replies[at] ?? [new Error('no reply'), undefined];
        return error ? this.#again(report, error) : shareFrom(reply);
      }),
    );
  }

  async #stepOne(report: PoolReport): Promise<ShareReply> {
    try {
      return shareFrom(await this.#redis.evalsha(sha1, 1, report.key, ...this.#buildArguments(report)));
    } catch (error) {
      return this.#again(report, error);
    }
  }

  /** An unknown script was refused before it ran, so it is safe to resend it. */
  async #again(report: PoolReport, error: unknown): Promise<ShareReply> {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) return { reason: describeError(error) };
    try {
      return shareFrom(await this.#redis.eval(text, 1, report.key, ...this.#buildArguments(report)));
    } catch (again) {
      return { reason: describeError(again) };
    }
  }

  #buildArguments({ pool, report }: PoolReport): readonly (string | number)[] {
    const { terms, clock } = this.#options;
    return [
      ...[pool.units, pool.fillMs, pool.burst, terms.ttlMs, terms.transitMs, terms.silenceMs, clock?.() ?? 0],
      ...[report.holder, report.requests, report.elapsedMs, report.sent],
      ...[report.isConfirmed, report.isResumed, report.leaves].map(Number),
    ];
  }
}

/** @param reply  of the script: three numbers, or none */
function shareFrom(reply: unknown): ShareReply {
  const [number, units, burst] = reply as readonly string[]; // see shares.lua
  return number === undefined ? undefined : { number: Number(number), units: Number(units), burst: Number(burst) };
}
