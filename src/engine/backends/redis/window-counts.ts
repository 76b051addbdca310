import type { State } from '../../algorithms/limit.ts';
import { isClaim } from '../../holds/claim.ts';
import { algorithmFor, type Limit } from '../../holds/limits.ts';
import type { Operation } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import type { CountedWindow } from './split-batch.ts';

/** Sends a command, and returns its reply, whose texts are `Buffer`s. */
type SendCommand = (name: string, args: string[], slot: number) => Promise<unknown>;

/** The clock of Redis during a call, and as it was estimated before. */
interface CallTimes {
  readonly nowMs: number;
  readonly estimatedMs: number;
  readonly slot: number;
}

/** What became of a divided batch. */
export interface CountedWindows {
  readonly nowMs: number;
  /** For each window its state before the spends, or why Redis refused to count them. */
  readonly befores: readonly (State | Error)[];
}

/**
 * Counts spends on fixed windows by plain commands, which cost Redis a fraction of a script. A counter is an integer
 * whose time to live is its window: INCRBY counts, after `SET NX` unless this process has seen the counter in the same
 * window. If a counter turns out to be new, because Redis has lost it, its expiry is set again.
 */
export class WindowCounts {
  readonly #send: SendCommand;
  /** The end of the window of each counter that was seen, on Redis's clock. */
  readonly #ends = new Map<CounterKey, number>();
  /** Counters that may have been created without an expiry by a call without a reply. */
  readonly #doubtful = new Map<CounterKey, { readonly limit: Limit; readonly slot: number }>();
  #mending: NodeJS.Timeout | undefined;

  constructor(send: SendCommand) {
    this.#send = send;
  }

  /**
   * Whether plain commands can count the operation. The end of a window is left to the script: an INCRBY that arrives
   * after it would create a counter without an expiry, which would remain if this process ended before the reply.
   *
   * @param nowMs  Redis's clock, approximately
   */
  isPlain(operation: Operation, nowMs: number): boolean {
    const { kind, hits, limit } = operation;
    if (kind !== 'spend' || hits === 0 || hits > MAX_HITS) return false;
    if (isClaim(operation) || !algorithmFor(limit).startBefore) return false;
    return endAt(limit, nowMs) - nowMs > MIN_LEFT_MS;
  }

  /** @throws  the error of a call that may have run */
  async count(windows: readonly CountedWindow[], slot: number, estimatedMs: number): Promise<CountedWindows> {
    const time = this.#send('time', [], slot);
    const sent = windows.map((window) => this.#sendSpends(window, slot, estimatedMs));
    const replies = await Promise.allSettled([time, ...sent.flat()]);
    const failure = replies.find((reply) => reply.status === 'rejected' && !isRefused(reply.reason));
    if (failure?.status === 'rejected') {
      for (const { key, limit } of windows) this.#doubt(key, limit, slot);
      throw failure.reason;
    }
    const values = replies.map((reply) => (reply.status === 'fulfilled' ? reply.value : reply.reason));
    const [seconds, microseconds] = values[0] as readonly Buffer[]; // of TIME
    const nowMs = Number(String(seconds)) * 1_000 + Math.floor(Number(String(microseconds)) / 1_000);
    let at = 1;
    const befores = windows.map((window, place) => {
      const first = at;
      at += sent[place]?.length ?? 0;
      return this.#readSpends(window, values.slice(first, at), { nowMs, estimatedMs, slot });
    });
    return { nowMs, befores };
  }

  close(): void {
    clearTimeout(this.#mending);
  }

  /** INCRBY alone, or between SET and PTTL for a counter that is not known in its present window. */
  #sendSpends({ key, limit, hits }: CountedWindow, slot: number, nowMs: number): readonly Promise<unknown>[] {
    const knownMs = this.#ends.get(key);
    if (knownMs !== undefined && knownMs - nowMs > MIN_LEFT_MS)
      return [this.#send('incrby', [key, String(hits)], slot)];
    const expiry = isFirstHit(limit) ? ['PX', String(limit.windowMs)] : ['PXAT', String(endAt(limit, nowMs))];
    return [
      this.#send('set', [key, '0', ...expiry, 'NX'], slot),
      this.#send('incrby', [key, String(hits)], slot),
      this.#send('pttl', [key], slot),
    ];
  }

  /** The state before the spends. @param replies  to the commands, some of which may be errors */
  #readSpends({ key, limit, hits }: CountedWindow, replies: readonly unknown[], at: CallTimes): State | Error {
    const { nowMs, estimatedMs } = at;
    const isKnown = replies.length === 1;
    const count = isKnown ? replies[0] : replies[1];
    if (typeof count !== 'number') {
      this.#ends.delete(key);
      return count instanceof Error ? count : new TypeError(`expected a count, got ${typeof count}`);
    }
    const before = Math.max(count - hits, 0);
    const leftMs = isKnown
      ? (this.#ends.get(key) ?? 0) - nowMs
      : typeof replies[2] === 'number'
        ? replies[2]
        : NO_EXPIRY;
    const endMs = before === 0 || leftMs <= 0 ? endAt(limit, nowMs) : nowMs + leftMs;
    // an estimate may be past the end of the window
    const isRight = isFirstHit(limit) || endAt(limit, estimatedMs) === endMs;
    const wasSet = String(replies[0]) === 'OK' && leftMs > 0 && isRight;
    if (before === 0 ? !wasSet : leftMs < 0 && !isKnown) this.#expire(key, limit, endMs, at.slot);
    if (!isFirstHit(limit)) this.#know(key, endMs);
    return [algorithmFor(limit).startBefore?.(limit, endMs) ?? 0, before];
  }

  #know(key: CounterKey, endMs: number): void {
    if (this.#ends.size >= MAX_KNOWN) this.#ends.clear();
    this.#ends.set(key, endMs);
  }

  #expire(key: CounterKey, limit: Limit, endMs: number, slot: number): void {
    this.#send('pexpireat', [key, String(endMs)], slot).catch(() => this.#doubt(key, limit, slot));
  }

  /** Checks the expiry of a counter later, until Redis answers. */
  #doubt(key: CounterKey, limit: Limit, slot: number): void {
    this.#ends.delete(key);
    if (this.#doubtful.size < MAX_DOUBTFUL) this.#doubtful.set(key, { limit, slot });
    this.#mending ??= setTimeout(() => void this.#mend(), MEND_MS).unref();
  }

  async #mend(): Promise<void> {
    this.#mending = undefined;
    const doubtful = [...this.#doubtful];
    this.#doubtful.clear();
    for (const [key, { limit, slot }] of doubtful) {
      try {
        const [[seconds], leftMs] = (await Promise.all([
          this.#send('time', [], slot),
          this.#send('pttl', [key], slot),
        ])) as [Buffer[], number]; // their replies
        if (leftMs === NO_EXPIRY) this.#expire(key, limit, endAt(limit, Number(String(seconds)) * 1_000), slot);
      } catch (error) {
        if (!isRefused(error)) this.#doubt(key, limit, slot);
      }
    }
  }
}

/** A window that ends sooner is left to the script: longer than a call that is not given up. */
const MIN_LEFT_MS = 100;
/** Sums of the hits of a batch are exact. */
const MAX_HITS = 2 ** 32;
/** Maximum number of counters that are known. */
const MAX_KNOWN = 131_072;
const MAX_DOUBTFUL = 10_000;
const MEND_MS = 1_000;
/** A reply of PTTL. */
const NO_EXPIRY = -1;

const isFirstHit = (limit: Limit): boolean => algorithmFor(limit).windows?.(limit) === 'first_hit';

/** The end of the window of a hit. */
const endAt = (limit: Limit, nowMs: number): number =>
  nowMs + algorithmFor(limit).step(limit, undefined, nowMs, 1, true).ttlMs;

/** Whether a command certainly did not run. */
export const isRefused = (error: unknown): boolean => error instanceof Error && error.name === 'ReplyError';
