import { readFileSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { type Monotonic, monotonicMs } from '../../base/clock.ts';
import { ConnectionLimit } from './connection-limit.ts';

export interface MemoryAccount {
  /** Memory of the connection itself, charged from opening the account until the connection is retired. */
  readonly baseBytes: number;
  /**
   * Sets how much memory this process holds for the client. May reset this connection or another one before it returns.
   */
  set(bytes: number): void;
  /**
   * Records whether the connection may be ended to make space for a new one. Call about once a second.
   *
   * @param isIdle  it has no open request, and had none since the previous call
   */
  markIdle(isIdle: boolean): void;
  /** Releases the memory of an ended connection. Later calls of `set` and `markIdle` do nothing. */
  close(): void;
}

/** Ends the connection of an account. */
export interface AccountHolder {
  /** Client address; connections without one count as one client. */
  readonly peer?: string;
  /** Ends the connection immediately. Called at most once, after its account was closed. */
  reset(): void;
  /**
   * Begins a graceful shutdown if the connection is idle. From then on its account is charged only for what it holds
   * besides itself, so the number of such connections must be bounded. Absent if the connection is never idle.
   *
   * @returns false if it is not idle
   */
  retire?(): boolean;
}

const DEFAULT_HEAP_FRACTION = 1 / 16;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;

/**
 * Fraction of the limit available to connections themselves; the rest is for requests. Without it, a client with very
 * many connections could get a legitimate client reset for holding slightly more than each of them.
 */
const CONNECTIONS_FRACTION = 3 / 4;

/** Logarithm of the upper bound of the smallest class, 4 KiB besides the connection itself. */
const CLASS_SHIFT = 12;
const CLASSES = 33;

/** A sixteenth of V8's heap limit, but at most 256 MiB. */
export const defaultCallerMemoryBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * DEFAULT_HEAP_FRACTION), DEFAULT_MAX_BYTES);

/**
 * Bounds the memory held for all callers beyond the read that delivered it, such as queued requests, streams, bodies
 * and unread output. When the sum exceeds the limit, the connection that holds most besides itself is reset. Size
 * classes (powers of two) find it without a search, so it holds at least half as much as any other connection. Within a
 * class, the connection that entered first is reset, since a client whose calls are answered keeps leaving its class.
 * At the limit, a new connection replaces an idle one.
 */
export class CallerMemory {
  readonly maxBytes: number;
  /**
   * Open accounts by size class, in order of entry. Shrunken accounts stay in their class until `#largest` finds them
   * or they grow.
   */
  readonly #classes: readonly Set<Account>[] = Array.from({ length: CLASSES }, () => new Set<Account>());
  readonly #nowMs: Monotonic;
  /** Accounts of all ports, without retired connections. */
  readonly #all: ConnectionLimit<Account>;
  #bytes = 0;
  /** Part of `#bytes` charged for the connections themselves. */
  #baseBytes = 0;

  /** @param maxConnections  defaults to what the limit on open files leaves for callers */
  constructor(maxBytes: number, nowMs: Monotonic = monotonicMs, maxConnections = maxCallerConnections()) {
    this.maxBytes = maxBytes;
    this.#nowMs = nowMs;
    this.#all = this.limit(maxConnections);
  }

  limit(maxConnections: number): PortLimit {
    return new ConnectionLimit(maxConnections, this.#nowMs, (account) => this.#retire(account));
  }

  /** Maximum number of connections over all ports. */
  get maxConnections(): number {
    return this.#all.max;
  }

  /** Memory charged to all open accounts. */
  get bytes(): number {
    return this.#bytes;
  }

  get connections(): number {
    return this.#classes.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Opens the account of a connection. Frees memory only by resetting connections that are not in the smallest class.
   *
   * @param bytes  memory of the connection itself
   * @param port   limit of its port, from `limit`
   * @returns undefined if a limit is reached and no other connection is idle
   */
  open(bytes: number, holder: AccountHolder, port?: PortLimit): MemoryAccount | undefined {
    while (port?.isFull) if (!port.retireOne()) return undefined;
    while (!this.#fits(bytes)) if (!this.#resetLarge(bytes) && !this.#all.retireOne()) return undefined;
    const account = new Account(bytes, this.#move, port ? [this.#all, port] : [this.#all], holder);
    this.#baseBytes += bytes;
    this.#classes[account.sizeClass]?.add(account);
    for (const limit of account.limits) limit.add(account);
    account.set(bytes);
    return account;
  }

  #fits(bytes: number): boolean {
    return !this.#all.isFull && this.#isWithinFraction(bytes) && this.#bytes + bytes <= this.maxBytes;
  }

  #isWithinFraction(bytes: number): boolean {
    return this.#baseBytes + bytes <= this.maxBytes * CONNECTIONS_FRACTION;
  }

  /** @returns false if a reset would not suffice, or all connections are in the smallest class */
  #resetLarge(bytes: number): boolean {
    if (this.#all.isFull || !this.#isWithinFraction(bytes)) return false;
    const largest = this.#largest();
    if (!largest || largest.sizeClass === 0) return false;
    this.#reset(largest);
    return true;
  }

  #reset(account: Account): void {
    account.close();
    account.holder.reset();
  }

  /** Whether the memory is at least half full; below that, the order within a class does not matter. */
  get #isFilling(): boolean {
    return this.#bytes > this.maxBytes / 2;
  }

  readonly #move = (account: Account, bytes: number): void => {
    this.#bytes += bytes - account.bytes;
    const hasGrown = bytes > account.bytes;
    account.bytes = bytes;
    const sizeClass = classForBytes(account.clientBytes);
    if (!account.isOpen) this.#forget(account);
    else if (sizeClass < account.sizeClass) account.hasLeft = true;
    else if (sizeClass > account.sizeClass || (account.hasLeft && this.#isFilling)) this.#moveTo(account, sizeClass);
    if (hasGrown && this.#bytes > this.maxBytes) this.#enforceLimit();
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

  #enforceLimit(): void {
    for (let largest = this.#largest(); largest && this.#bytes > this.maxBytes; largest = this.#largest())
      this.#reset(largest);
  }

  /**
   * Moves shrunken accounts to their class. Each such move follows one to a larger class, so the amortized cost is
   * constant.
   */
  #largest(): Account | undefined {
    for (let sizeClass = CLASSES - 1; sizeClass >= 0; sizeClass--)
      for (const account of this.#classes[sizeClass] ?? []) {
        const current = classForBytes(account.clientBytes);
        if (current === sizeClass) return account;
        this.#moveTo(account, current);
      }
    return undefined;
  }
}

type PortLimit = ConnectionLimit<Account>;

class Account implements MemoryAccount {
  baseBytes: number;
  readonly holder: AccountHolder;
  readonly peer: string;
  readonly limits: readonly PortLimit[];
  readonly #move: (account: Account, bytes: number) => void;
  bytes = 0;
  sizeClass = 0;
  /** Whether it has shrunk below that class since it entered. */
  hasLeft = false;
  isOpen = true;
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

  /** Memory held besides that of the connection itself. */
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

/** @param bytes  memory besides that of the connection itself */
const classForBytes = (bytes: number): number => 32 - Math.clz32(Math.max(bytes, 0) >>> CLASS_SHIFT);

/** Open files reserved for files on disk and for connections that are not callers'. */
const RESERVED = 448;

/** Minimum fraction of the remaining open files for callers, and the maximum, which leaves some for ending ones. */
const MIN_FRACTION = 1 / 4;
const MAX_FRACTION = 7 / 8;

/** Maximum number of callers' connections; accepting beyond the limit on open files would stop all accepting. */
function maxCallerConnections(): number {
  const openFiles = maxOpenFiles();
  return Math.floor(Math.max(openFiles * MIN_FRACTION, (openFiles - RESERVED) * MAX_FRACTION));
}

/** Limit on this process's open files; Infinity if unknown. */
function maxOpenFiles(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY; // not Linux
  }
}
