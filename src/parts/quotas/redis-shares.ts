import type { Clock } from '../../base/clock.ts';
import { within } from '../../engine/backends/within.ts';
import type { RunScript } from '../../engine/open/open-backends.ts';
import type { PoolReport, ShareReply, ShareStore } from './share-store.ts';
import { emptyHolder, type ShareHolder, type ShareState, type ShareTerms, stepShares } from './shares.ts';

/**
 * Replaces the pool KEYS[1] if it is still as it was read, and returns nothing. Otherwise returns the server's seconds
 * and microseconds, and the pool. ARGV has the pool as it was read, the new one, and its time to live in ms, or 0 to
 * drop it. Without ARGV the pool is only read.
 */
const COMPARE_AND_SET = `
local pool = redis.call('GET', KEYS[1]) or ''
if pool ~= ARGV[1] then
  local time = redis.call('TIME')
  return { time[1], time[2], pool }
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return {}
`;

/** Attempts to change a pool; each one that fails lets another process succeed. */
const MAX_ATTEMPTS = 100;

interface RedisSharesOptions {
  readonly terms: ShareTerms;
  readonly timeoutMs: number;
  /** Only for tests: replaces the clock of Redis. */
  readonly clock?: Clock;
}

/** Pools in a Redis that any number of processes share, on Redis's clock. */
export class RedisShares implements ShareStore {
  readonly #runScript: RunScript;
  readonly #options: RedisSharesOptions;

  constructor(runScript: RunScript, options: RedisSharesOptions) {
    this.#runScript = runScript;
    this.#options = options;
  }

  /** Unknown before a pool is read. */
  holders(): number {
    return 0;
  }

  async step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    const byPool = new Map<string, PoolReport[]>();
    for (const report of reports) {
      const own = byPool.get(report.key);
      if (own) own.push(report);
      else byPool.set(report.key, [report]);
    }
    const shares = new Map<PoolReport, ShareReply>();
    await Promise.all(
      Array.from(byPool, async ([key, own]) => {
        const replies = await within(this.#options.timeoutMs, this.#stepPool(key, own));
        for (const [at, report] of own.entries())
          shares.set(report, 'value' in replies ? replies.value[at] : { reason: replies.reason });
      }),
    );
    return reports.map((report) => shares.get(report));
  }

  /** The shares for reports of one pool: of the state that all of them change together, if nobody else changed it. */
  async #stepPool(key: string, reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    const { terms, clock } = this.#options;
    try {
      let found = await this.#run(key);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const [seconds, microseconds, before = ''] = found;
        const nowMs = clock?.() ?? Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
        let state = readState(before);
        let ttlMs = 0;
        const shares = reports.map(({ pool, report }) => {
          const step = stepShares(state, report, { pool, terms, nowMs });
          [state, ttlMs] = [step.state, step.ttlMs];
          return step.share;
        });
        found = await this.#run(key, before, writeState(state), Math.max(ttlMs, 0));
        if (found.length === 0) return shares;
      }
      return reports.map(() => ({ reason: `the pool was changed by others during ${MAX_ATTEMPTS} attempts` }));
    } catch (error) {
      return reports.map(() => ({ reason: error instanceof Error ? error.message : String(error) }));
    }
  }

  #run(key: string, ...change: readonly (string | number)[]): Promise<readonly string[]> {
    return this.#runScript(COMPARE_AND_SET, key, change) as Promise<readonly string[]>; // see the script
  }
}

const NUMBERS = Object.keys(emptyHolder).length;

/** For each holder its id and its numbers, separated by spaces. */
const writeState = (state: ShareState): string => state.flatMap((holder) => Object.values(holder)).join(' ');

function readState(text: string): ShareState {
  const values = text === '' ? [] : text.split(' ');
  return Array.from({ length: values.length / NUMBERS }, (_, at) => {
    const [id = '', ...numbers] = values.slice(at * NUMBERS, (at + 1) * NUMBERS);
    const names = Object.keys(emptyHolder).slice(1);
    return { ...emptyHolder, id, ...Object.fromEntries(names.map((name, place) => [name, Number(numbers[place])])) };
  }) satisfies readonly ShareHolder[];
}
