import type { State } from '../../algorithms/limit.ts';
import { isClaim } from '../../holds/claim.ts';
import { algorithmFor, type Limit } from '../../holds/limits.ts';
import type { Operation } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import { Pipeline } from './pipeline.ts';
import type { CountedWindow } from './split-batch.ts';

/** Sends commands to the node of a slot. */
type SendCommands = (commands: Pipeline, slot: number) => Promise<readonly unknown[]>;

/** The replies of a call, with the place of a window's INCRBY: see `#addSpends`. */
interface CallOfWindow {
  readonly replies: readonly unknown[];
  readonly place: number;
  /** The clock of Redis during the call, and as it was estimated before. */
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
  readonly #send: SendCommands;
  /** The end of the window of each counter that was seen, on Redis's clock. */
  readonly #ends = new Map<CounterKey, number>();
  /** Counters that may have been created without an expiry by a call without a reply. */
  readonly #doubtful = new Map<CounterKey, { readonly limit: Limit; readonly slot: number }>();
  #mending: NodeJS.Timeout | undefined;
  #lastEnd: { readonly limit: Limit; readonly nowMs: number; readonly endMs: number } | undefined;

  constructor(send: SendCommands) {
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
    return this.#endAt(limit, nowMs) - nowMs > MIN_LEFT_MS;
  }

  /** @throws  the error of a call that may have run */
  async count(windows: readonly CountedWindow[], slot: number, estimatedMs: number): Promise<CountedWindows> {
    const commands = new Pipeline();
    commands.add('TIME');
    const places = windows.map((window) => this.#addSpends(commands, window, estimatedMs));
    let replies: readonly unknown[];
    try {
      replies = await this.#send(commands, slot);
    } catch (error) {
      for (const { key, limit } of windows) this.#doubt(key, limit, slot);
      throw error;
    }
    const nowMs = readTime(replies[0]);
    const befores = windows.map((window, at) => {
      const place = places[at] as number; // one for each window
      return this.#readSpends(window, { replies, place, nowMs, estimatedMs, slot });
    });
    return { nowMs, befores };
  }

  close(): void {
    clearTimeout(this.#mending);
  }

  /**
   * Adds INCRBY alone, or between SET and PTTL for a counter that is not known in its present window.
   *
   * @returns  the place of INCRBY; negative if it is alone
   */
  #addSpends(commands: Pipeline, { key, limit, hits }: CountedWindow, nowMs: number): number {
    const knownMs = this.#ends.get(key);
    if (knownMs !== undefined && knownMs - nowMs > MIN_LEFT_MS) {
      commands.add('INCRBY', key, String(hits));
      return 1 - commands.count;
    }
    if (isFirstHit(limit)) commands.add('SET', key, '0', 'PX', String(limit.windowMs), 'NX');
    else commands.add('SET', key, '0', 'PXAT', String(this.#endAt(limit, nowMs)), 'NX');
    commands.add('INCRBY', key, String(hits));
    commands.add('PTTL', key);
    return commands.count - 2;
  }

  /** The state before the spends, or why they were not counted. */
  #readSpends({ key, limit, hits }: CountedWindow, at: CallOfWindow): State | Error {
    const { replies, place } = at;
    const count = replies[Math.abs(place)];
    if (typeof count !== 'number') {
      this.#ends.delete(key);
      return count instanceof Error ? count : new TypeError(`expected a count, got ${typeof count}`);
    }
    const before = Math.max(count - hits, 0);
    const endMs = place < 0 ? this.#endOfKnown(key, limit, before, at) : this.#endOfSeen(key, limit, before, at);
    return [algorithmFor(limit).startBefore?.(limit, endMs) ?? 0, before];
  }

  /** The end of the window of a counter after INCRBY alone. */
  #endOfKnown(key: CounterKey, limit: Limit, before: number, { nowMs, slot }: CallOfWindow): number {
    const knownMs = this.#ends.get(key) ?? 0;
    if (before > 0 && knownMs > nowMs) return knownMs;
    const endMs = this.#endAt(limit, nowMs);
    if (before === 0) this.#expire(key, limit, endMs, slot);
    this.#know(key, endMs);
    return endMs;
  }

  /** The same after SET, INCRBY and PTTL. */
  #endOfSeen(
    key: CounterKey,
    limit: Limit,
    before: number,
    { replies, place, nowMs, estimatedMs, slot }: CallOfWindow,
  ): number {
    const pttl = replies[place + 1];
    const leftMs = typeof pttl === 'number' ? pttl : NO_EXPIRY;
    const endMs = before > 0 && leftMs > 0 ? nowMs + leftMs : this.#endAt(limit, nowMs);
    // an estimate may be past the end of the window
    const isRight = leftMs > 0 && (isFirstHit(limit) || this.#endAt(limit, estimatedMs) === endMs);
    const wasSet = isRight && String(replies[place - 1]) === 'OK';
    if (before === 0 ? !wasSet : leftMs < 0) this.#expire(key, limit, endMs, slot);
    if (!isFirstHit(limit)) this.#know(key, endMs);
    return endMs;
  }

  /** The end of the window of a hit; those of a batch have few limits. */
  #endAt(limit: Limit, nowMs: number): number {
    const last = this.#lastEnd;
    if (last?.limit === limit && last.nowMs === nowMs) return last.endMs;
    const endMs = nowMs + algorithmFor(limit).step(limit, undefined, nowMs, 1, true).ttlMs;
    this.#lastEnd = { limit, nowMs, endMs };
    return endMs;
  }

  #know(key: CounterKey, endMs: number): void {
    if (this.#ends.size >= MAX_KNOWN) this.#ends.clear();
    this.#ends.set(key, endMs);
  }

  #expire(key: CounterKey, limit: Limit, endMs: number, slot: number): void {
    const commands = new Pipeline();
    commands.add('PEXPIREAT', key, String(endMs));
    this.#send(commands, slot).catch(() => this.#doubt(key, limit, slot));
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
        const commands = new Pipeline();
        commands.add('TIME');
        commands.add('PTTL', key);
        const [time, leftMs] = await this.#send(commands, slot);
        if (leftMs === NO_EXPIRY) this.#expire(key, limit, this.#endAt(limit, readTime(time)), slot);
      } catch {
        this.#doubt(key, limit, slot);
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

/** @param reply  of TIME: seconds and microseconds */
function readTime(reply: unknown): number {
  if (!Array.isArray(reply)) throw reply instanceof Error ? reply : new TypeError('expected the reply of TIME');
  return Number(String(reply[0])) * 1_000 + Math.floor(Number(String(reply[1])) / 1_000);
}
