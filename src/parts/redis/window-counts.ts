import { MAX_COUNT, type State, unitMs } from '../../engine/algorithms/limit.ts';
import type { Operation } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { isClaim } from '../../engine/holds/claim.ts';
import { algorithmFor, type Limit } from '../../engine/holds/limits.ts';
import { Pipeline } from './commands.ts';

/** Sends commands to the node of a slot. */
type SendCommands = (commands: Pipeline, slot: number) => Promise<readonly unknown[]>;

/** What is to be done with one counter. */
export interface Change {
  readonly key: CounterKey;
  readonly limit: Limit;
  /** Added to the count; negative if they are given back. */
  readonly hits: number;
  /** The counter is only read, or reset, without hits. */
  readonly instead?: 'read' | 'reset' | undefined;
}

/** Where the commands of a change are among those of a call. */
interface Placed {
  /** The place of INCRBY or GET. */
  readonly at: number;
  /** INCRBY stands alone; otherwise it is between SET and PTTL. */
  readonly isAlone: boolean;
  /** The expiry in SET. */
  readonly endMs?: number | undefined;
}

/** A call that was answered. */
interface Answered {
  readonly replies: readonly unknown[];
  /** The clock of Redis during the call. */
  readonly nowMs: number;
  readonly isExact: boolean;
  readonly slot: number;
}

/** What became of changes. */
export interface Counted {
  readonly nowMs: number;
  /** For each change the window's state before it, or why Redis refused it. */
  readonly befores: readonly (State | Error)[];
}

/**
 * Counts spends on fixed windows by plain commands, which cost Redis a fraction of a script. A counter is an integer
 * whose time to live is its window: INCRBY counts, after `SET NX` unless this process has seen the counter in the same
 * window. If a counter turns out to be new, because Redis has lost it, its expiry is set again.
 */
export class WindowCounts {
  readonly #send: SendCommands;
  readonly #clock: (slot: number) => number;
  /** The end of the window of each counter that was seen, on Redis's clock. */
  readonly #ends = new Map<CounterKey, number>();
  /** Counters that may have been created without an expiry by a call without a reply. */
  readonly #doubtful = new Map<CounterKey, { readonly limit: Limit; readonly slot: number }>();
  #mending: NodeJS.Timeout | undefined;
  #lastEnd: { readonly limit: Limit; readonly nowMs: number; readonly endMs: number } | undefined;

  /** @param clock  that of a slot's node, approximately */
  constructor(send: SendCommands, clock: (slot: number) => number) {
    this.#send = send;
    this.#clock = clock;
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

  /**
   * @param isExact  Redis tells its time; otherwise it is estimated, unless the expiry of a new counter shows it
   * @throws  the error of a call that may have run
   */
  async count(windows: readonly Change[], slot: number, isExact = true): Promise<Counted> {
    const estimatedMs = this.#clock(slot);
    const commands = new Pipeline();
    if (isExact) commands.add('TIME');
    const places = windows.map((window) => this.#addChange(commands, window, estimatedMs));
    let replies: readonly unknown[];
    try {
      replies = await this.#send(commands, slot);
    } catch (error) {
      for (const { key, limit } of windows) this.#doubt(key, limit, slot);
      throw error;
    }
    const nowMs = isExact
      ? readTime(replies[0])
      : (places.map((at) => shownTime(at, replies)).find(Boolean) ?? estimatedMs);
    const answered = { replies, nowMs, isExact, slot };
    const befores = windows.map((window, at) => this.#readChange(window, places[at] as Placed, answered)); // one for each
    return { nowMs, befores };
  }

  /**
   * Tests on a scratch counter whether Redis takes all commands, and returns its time.
   *
   * @param nowMs  this process's clock
   * @throws  Redis's error
   */
  async test(key: CounterKey, slot: number, nowMs: number): Promise<number> {
    const endMs = nowMs + TEST_MS;
    const commands = new Pipeline();
    commands.add('SET', key, '0', 'PXAT', String(endMs), 'NX');
    for (const [name, ...args] of [['INCRBY', '1'], ['GET'], ['PTTL'], ['PEXPIREAT', String(endMs)]] as const)
      commands.add(name, key, ...args);
    commands.add('DEL', key);
    const replies = await this.#send(commands, slot);
    for (const reply of replies) if (reply instanceof Error) throw reply;
    if (Number(replies[3]) <= 0) throw new Error('the clocks of Redis and of this process differ by more than a day');
    return endMs - Number(replies[3]);
  }

  close(): void {
    clearTimeout(this.#mending);
  }

  #addChange(commands: Pipeline, { key, limit, hits, instead }: Change, nowMs: number): Placed {
    const knownMs = this.#ends.get(key);
    if (!instead && knownMs !== undefined && knownMs - nowMs > MIN_LEFT_MS) {
      commands.add('INCRBY', key, String(hits));
      return { at: commands.count - 1, isAlone: true };
    }
    const endMs = instead || isFirstHit(limit) ? undefined : this.#endToSet(limit, nowMs);
    if (instead === 'reset') commands.add('SET', key, '0', 'XX', 'KEEPTTL');
    else if (endMs !== undefined) commands.add('SET', key, '0', 'PXAT', String(endMs), 'NX');
    else if (!instead) commands.add('SET', key, '0', 'PX', String(limit.windowMs), 'NX');
    if (instead) commands.add('GET', key);
    else commands.add('INCRBY', key, String(hits));
    commands.add('PTTL', key);
    return { at: commands.count - 2, isAlone: false, endMs };
  }

  /** The state before the change, or why it was not made. */
  #readChange(change: Change, placed: Placed, answered: Answered): State | Error {
    const { key, limit, hits } = change;
    const count = readCount(answered.replies[placed.at]);
    if (count instanceof Error) {
      this.#ends.delete(key);
      return count;
    }
    const kept = Math.min(Math.max(count, 0), MAX_COUNT); // more was given back than taken, or the largest count is exceeded
    if (kept !== count) this.#mendCount(key, limit, ['INCRBY', key, String(kept - count)], answered.slot);
    const before = Math.max(count - hits, 0);
    const endMs = placed.isAlone
      ? this.#endOfKnown(key, limit, before, answered)
      : this.#endOfSeen(change, placed, before, answered);
    return [algorithmFor(limit).startBefore?.(limit, endMs) ?? 0, before];
  }

  /** The end of the window of a counter after INCRBY alone. */
  #endOfKnown(key: CounterKey, limit: Limit, before: number, { nowMs, slot }: Answered): number {
    const knownMs = this.#ends.get(key) ?? 0;
    if (before > 0 && knownMs > nowMs) return knownMs;
    const endMs = this.#endAt(limit, nowMs);
    if (before === 0) this.#expire(key, limit, endMs, slot);
    this.#know(key, endMs);
    return endMs;
  }

  /** The same if PTTL followed. */
  #endOfSeen({ key, limit, instead }: Change, placed: Placed, before: number, answered: Answered): number {
    const { at, endMs: sentMs } = placed;
    const { replies, nowMs, slot, isExact } = answered;
    const pttl = replies[at + 1];
    const leftMs = typeof pttl === 'number' ? pttl : NO_EXPIRY;
    // an estimate may be past the end of the window
    const isRight =
      isFirstHit(limit) || sentMs === this.#endAt(limit, nowMs) || sentMs === this.#endToSet(limit, nowMs);
    const wasSet = leftMs > 0 && isRight && isOk(replies[at - 1]);
    const shownMs = isExact || isFirstHit(limit) ? nowMs + leftMs : this.#nearestEnd(limit, nowMs + leftMs);
    const newMs = (wasSet && sentMs) || this.#endAt(limit, nowMs);
    const endMs = before > 0 && leftMs > 0 ? shownMs : newMs;
    if (instead ? leftMs === NO_EXPIRY : before === 0 ? !wasSet : leftMs < 0) this.#expire(key, limit, endMs, slot);
    if (!instead && !isFirstHit(limit)) this.#know(key, endMs);
    return endMs;
  }

  /**
   * The expiry of a new counter. Hits in the last moments of a window count in the next one, since they may arrive after
   * the window has ended, when its counter would expire at once.
   */
  #endToSet(limit: Limit, nowMs: number): number {
    const endMs = this.#endAt(limit, nowMs);
    return endMs - nowMs > MIN_LEFT_MS ? endMs : this.#endAt(limit, endMs);
  }

  /** The end of a window from an inexact one. */
  #nearestEnd(limit: Limit, aboutMs: number): number {
    return this.#endAt(limit, aboutMs - Math.min(limit.windowMs / 2, MAX_ERROR_MS));
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
    this.#mendCount(key, limit, ['PEXPIREAT', key, String(endMs)], slot);
  }

  #mendCount(key: CounterKey, limit: Limit, command: readonly [string, ...string[]], slot: number): void {
    this.#sendOne(command, slot).catch(() => this.#doubt(key, limit, slot));
  }

  /** @throws  the connection's error, or Redis's unless it will refuse the command again */
  async #sendOne([name, ...args]: readonly [string, ...string[]], slot: number): Promise<unknown> {
    const commands = new Pipeline();
    commands.add(name, ...args);
    const [reply] = await this.#send(commands, slot);
    if (reply instanceof Error && !FOR_EVER.test(reply.message)) throw reply;
    return reply;
  }

  /** Checks the expiry of a counter later, until Redis tells it. */
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
        const leftMs = await this.#sendOne(['PTTL', key], slot);
        if (leftMs === NO_EXPIRY) this.#expire(key, limit, this.#endAt(limit, this.#clock(slot)), slot);
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
/** Errors that do not end by themselves. */
const FOR_EVER = /^(NOPERM|ERR|WRONGTYPE) /;
/** A reply of PTTL. */
const NO_EXPIRY = -1;
/** An estimate of Redis's time is nearer to it. */
const MAX_ERROR_MS = 500;
/** How long a scratch counter is kept if this process ends before it has deleted it. */
const TEST_MS = unitMs.DAY;

const isFirstHit = (limit: Limit): boolean => algorithmFor(limit).windows?.(limit) === 'first_hit';

const isOk = (reply: unknown): boolean => String(reply) === 'OK';

/** The time at which a new counter had the rest of its window to live. */
function shownTime({ at, endMs }: Placed, replies: readonly unknown[]): number | undefined {
  const leftMs = replies[at + 1];
  return endMs !== undefined && isOk(replies[at - 1]) && typeof leftMs === 'number' && leftMs > 0
    ? endMs - leftMs
    : undefined;
}

/** @param reply  of INCRBY or GET */
function readCount(reply: unknown): number | Error {
  if (typeof reply === 'number' || reply instanceof Error) return reply;
  const count = Number(String(reply ?? 0));
  return Number.isSafeInteger(count) ? count : new TypeError(`expected a count, got ${typeof reply}`);
}

/** @param reply  of TIME: seconds and microseconds */
export function readTime(reply: unknown): number {
  if (!Array.isArray(reply)) throw reply instanceof Error ? reply : new TypeError('expected the reply of TIME');
  return Number(String(reply[0])) * 1_000 + Math.floor(Number(String(reply[1])) / 1_000);
}
