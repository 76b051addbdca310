import { BoundedMap } from '../bounded-map.ts';
import type { Client } from '../client.ts';
import type { Decision } from '../decision.ts';
import { MAX_KEYS } from './budget.ts';

/** How long a process uses the last read value. */
const READ_INTERVAL_MS = 100;

const HITS_PER_SECOND = 1_000;

interface Reading {
  readonly fromMs: number;
  readonly untilMs: Promise<number>;
}

interface SharedPauseOptions {
  readonly client: Pick<Client, 'limit'>;
  readonly domain: string;
  readonly timeoutMs: number | undefined;
}

/**
 * Pauses in Weir, stored as hits of a token bucket that refills with 1,000 a second: one hit per ms of the pause, so
 * the rest of a pause is the time until the bucket is full.
 */
export class SharedPauses {
  readonly #options: SharedPauseOptions;
  readonly #nowMs: () => number;
  readonly #readings = new BoundedMap<string, Reading>(MAX_KEYS);
  /** Calls without an answer, or with an answer that describes another limit. */
  failed = 0;

  constructor(options: SharedPauseOptions, nowMs: () => number) {
    this.#options = options;
    this.#nowMs = nowMs;
  }

  /** The time until which the key pauses, on the clock of this process, or 0 if no pause is known. */
  read(key: string): Promise<number> {
    const fromMs = this.#nowMs();
    const known = this.#readings.get(key);
    if (known && fromMs - known.fromMs < READ_INTERVAL_MS) return known.untilMs;
    const untilMs = this.#hit(key, 0).then((decision) => {
      const leftMs = decision ? pauseOf(decision) : 0;
      return leftMs > 0 ? this.#nowMs() + leftMs : 0;
    });
    this.#readings.set(key, { fromMs, untilMs });
    return untilMs;
  }

  /**
   * Extends the pause to `ms` from now; never shortens it. If several processes extend it at the same moment, their
   * hits add up: each process then refunds its excess.
   */
  async extend(key: string, ms: number): Promise<void> {
    const before = await this.#hit(key, 0);
    if (!before) return;
    const missingMs = ms - pauseOf(before);
    if (missingMs <= 0) return;
    const after = await this.#hit(key, missingMs);
    if (!after?.ok) return; // the bucket would overflow: the pause is as long as the rule allows
    const excessMs = Math.min(pauseOf(after) - ms, missingMs);
    if (excessMs > 0) await this.#hit(key, -excessMs);
  }

  async #hit(key: string, hits: number): Promise<Decision | undefined> {
    const { client, domain, timeoutMs } = this.#options;
    const options = { hits, ...(timeoutMs !== undefined && { timeoutMs }) };
    const decision = await client.limit(domain, { origin: key }, options).catch(() => undefined); // an oversized key
    if (decision && !decision.error && holdsPauses(decision)) return decision;
    this.failed++;
    return undefined;
  }
}

/** The rest of a pause. Only `resetMs` is sent by earlier versions of Weir, as the same time. */
const pauseOf = ({ unspentMs, resetMs = 0 }: Decision): number => unspentMs ?? resetMs;

/** For another limit, the time until it is unspent says nothing about a pause. */
const holdsPauses = ({ limit, windowMs }: Decision): boolean => limit === HITS_PER_SECOND && windowMs === 1_000;
