import { readFileSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { type Monotonic, monotonicMs } from '../../base/clock.ts';
import { ConnectionLimit } from './connection-limit.ts';

/** The memory account of one connection. */
export interface MemoryAccount {
  /** Memory of the connection itself, charged from when the account was opened until the connection is retired. */
  readonly baseBytes: number;
  /**
   * Sets how much memory this process holds for the client. May reset this connection or another one before it returns.
   */
  set(bytes: number): void;
  /**
   * Records whether the connection may be ended for a new one. To be called about once a second.
   *
   * @param isIdle  it has no open request, and had none since the previous call
   */
  markIdle(isIdle: boolean): void;
  /** The connection has ended: releases its memory. Later calls of `set` and `markIdle` do nothing. */
  close(): void;
}

/** Ends the connection of an account. */
export interface AccountHolder {
  /** The address of its client; absent: all such connections have the same. */
  readonly peer?: string;
  /** Ends the connection at once. Called at most once, after its account was closed. */
  reset(): void;
  /**
   * Begins to end the connection in good order if it is idle at this time. From then on its account is charged only
   * with what it holds besides itself, so there must not be many such connections. Absent: it never is idle.
   *
   * @returns false if it is not idle
   */
  retire?(): boolean;
}

/** Default share of V8's heap limit. */
const DEFAULT_HEAP_SHARE = 1 / 16;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;

/**
 * The share of the limit that connections themselves may take. The rest is for their clients' requests: otherwise a
 * client with very many connections could leave so little that a legitimate client, which holds a little more than each
 * of them, would be reset.
 */
const CONNECTIONS_SHARE = 3 / 4;

/** The smallest class: all connections that hold less than 4 KiB besides themselves. */
const CLASS_SHIFT = 12;
const CLASSES = 33;

/** A sixteenth of V8's heap limit, 256 MiB at most. */
export const defaultCallerMemoryBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * DEFAULT_HEAP_SHARE), DEFAULT_MAX_BYTES);

/**
 * Bounds the memory held for all callers together beyond the read that delivered it: waiting requests, streams, bodies,
 * unread output. When the sum exceeds the limit, the connection that holds most besides itself is reset. It is found by
 * size class (powers of two) without a search, so it holds at least half as much as any other connection. Within a
 * class, the connection that entered it first is reset: a client whose calls are answered keeps leaving its class. A
 * new connection without room replaces an idle one.
 */
export class CallerMemory {
  readonly maxBytes: number;
  /**
   * Open accounts by size class, within a class in order of entry. Those that have shrunk stay until `#largest` finds
   * them, or they grow.
   */
  readonly #classes: readonly Set<Account>[] = Array.from({ length: CLASSES }, () => new Set<Account>());
  readonly #nowMs: Monotonic;
  /** Accounts of all ports that were not retired. */
  readonly #all: ConnectionLimit<Account>;
  #bytes = 0;
  /** The part of `#bytes` charged for connections themselves. */
  #baseBytes = 0;

  /** @param maxConnections  defaults to what the limit on open files leaves for callers */
  constructor(maxBytes: number, nowMs: Monotonic = monotonicMs, maxConnections = maxCallerConnections()) {
    this.maxBytes = maxBytes;
    this.#nowMs = nowMs;
    this.#all = this.limit(maxConnections);
  }

  /** A limit on the number of a port's connections. */
  limit(maxConnections: number): PortLimit {
    return new ConnectionLimit(maxConnections, this.#nowMs, (account) => this.#retire(account));
  }

  /** The most connections of all ports together. */
  get maxConnections(): number {
    return this.#all.max;
  }

  /** The sum over all open accounts. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Open accounts. */
  get connections(): number {
    return this.#classes.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Opens the account of a connection. Makes room by resets only among connections that are not in the smallest class.
   *
   * @param bytes  memory of the connection itself
   * @param port   the limit of its port, from `limit`; absent: it has none
   * @returns undefined if there is no room, and no other connection is idle
   */
  open(bytes: number, holder: AccountHolder, port?: PortLimit): MemoryAccount | undefined {
    while (port?.isFull) if (!port.retireOne()) return undefined;
    while (!this.#hasRoom(bytes)) if (!this.#resetLarge(bytes) && !this.#all.retireOne()) return undefined;
    const account = new Account(bytes, this.#move, port ? [this.#all, port] : [this.#all], holder);
    account.isOpen = true;
    this.#baseBytes += bytes;
    this.#classes[account.sizeClass]?.add(account);
    for (const limit of account.limits) limit.add(account);
    account.set(bytes);
    return account;
  }

  #hasRoom(bytes: number): boolean {
    return !this.#all.isFull && this.#isWithinShare(bytes) && this.#bytes + bytes <= this.maxBytes;
  }

  #isWithinShare(bytes: number): boolean {
    return this.#baseBytes + bytes <= this.maxBytes * CONNECTIONS_SHARE;
  }

  /** @returns false if that would not help, or all connections are in the smallest class */
  #resetLarge(bytes: number): boolean {
    if (this.#all.isFull || !this.#isWithinShare(bytes)) return false;
    const largest = this.#largest();
    if (!largest || largest.sizeClass === 0) return false;
    this.#reset(largest);
    return true;
  }

  #reset(account: Account): void {
    account.close();
    account.holder.reset();
  }

  /** At least half full: below this, the order within a class does not matter. */
  get #isFilling(): boolean {
    return this.#bytes > this.maxBytes / 2;
  }

  readonly #move = (account: Account, bytes: number): void => {
    this.#bytes += bytes - account.bytes;
    const hasGrown = bytes > account.bytes;
    account.bytes = bytes;
    const sizeClass = sizeClassOf(account.clientBytes);
    if (!account.isOpen) this.#forget(account);
    else if (sizeClass < account.sizeClass) account.hasLeft = true;
    else if (sizeClass > account.sizeClass || (account.hasLeft && this.#isFilling)) this.#moveTo(account, sizeClass);
    if (hasGrown && this.#bytes > this.maxBytes) this.#makeRoom();
  };

  #retire(account: Account): boolean {
    if (account.holder.retire?.() !== true) return false;
    const { baseBytes, bytes } = account;
    if (!account.isOpen) return true;
    this.#baseBytes -= baseBytes;
    for (const limit of account.limits) limit.remove(account);
    account.isRetired = true;
    account.baseBytes = 0;
    account.set(bytes - baseBytes);
    return true;
  }

  #forget(account: Account): void {
    this.#baseBytes -= account.baseBytes;
    this.#classes[account.sizeClass]?.delete(account);
    if (!account.isRetired) for (const limit of account.limits) limit.remove(account);
  }

  #moveTo(account: Account, sizeClass: number): void {
    this.#classes[account.sizeClass]?.delete(account);
    account.sizeClass = sizeClass;
    account.hasLeft = false;
    this.#classes[sizeClass]?.add(account);
  }

  #makeRoom(): void {
    for (let largest = this.#largest(); largest && this.#bytes > this.maxBytes; largest = this.#largest())
      this.#reset(largest);
  }

  /**
   * Moves accounts that have shrunk to their class. Each such move follows one to a larger class, so the amortized cost
   * is constant.
   */
  #largest(): Account | undefined {
    for (let sizeClass = CLASSES - 1; sizeClass >= 0; sizeClass--)
      for (const account of this.#classes[sizeClass] ?? []) {
        const current = sizeClassOf(account.clientBytes);
        if (current === sizeClass) return account;
        this.#moveTo(account, current);
      }
    return undefined;
  }
}

/** A limit on the number of a port's connections. */
type PortLimit = ConnectionLimit<Account>;

class Account implements MemoryAccount {
  baseBytes: number;
  readonly holder: AccountHolder;
  readonly peer: string;
  readonly limits: readonly PortLimit[];
  readonly #move: (account: Account, bytes: number) => void;
  bytes = 0;
  /** The size class that lists it. */
  sizeClass = 0;
  /** It has become too small for that class since it entered. */
  hasLeft = false;
  isOpen = false;
  isRetired = false;

  constructor(
    baseBytes: number,
    move: (account: Account, bytes: number) => void,
    limits: readonly PortLimit[],
    holder: AccountHolder,
  ) {
    this.baseBytes = baseBytes;
    this.holder = holder;
    this.peer = holder.peer ?? '';
    this.limits = limits;
    this.#move = move;
  }

  /** The memory it holds besides that of the connection itself. */
  get clientBytes(): number {
    return this.bytes - this.baseBytes;
  }

  set(bytes: number): void {
    if (this.isOpen && bytes !== this.bytes) this.#move(this, bytes);
  }

  markIdle(isIdle: boolean): void {
    if (this.isOpen && !this.isRetired) for (const limit of this.limits) limit.mark(this, isIdle);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#move(this, 0);
  }
}

/** @param bytes  besides those of the connection itself */
const sizeClassOf = (bytes: number): number => 32 - Math.clz32(Math.max(bytes, 0) >>> CLASS_SHIFT);

/** For files, and for connections that are not callers'. */
const RESERVED = 448;

/** The share of the rest that callers' connections may take at least, and that remains for those that are ending. */
const SMALLEST_SHARE = 1 / 4;
const LARGEST_SHARE = 7 / 8;

/** The most connections of callers: an accepted connection beyond the limit on open files would end all accepting. */
export function maxCallerConnections(): number {
  const openFiles = maxOpenFiles();
  return Math.floor(Math.max(openFiles * SMALLEST_SHARE, (openFiles - RESERVED) * LARGEST_SHARE));
}

/** The limit on this process's open files; Infinity if it is unknown. */
function maxOpenFiles(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY; // not Linux
  }
}
