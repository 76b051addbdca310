import { getHeapStatistics } from 'node:v8';

/** The memory account of one connection. */
export interface MemoryAccount {
  /** Memory of the connection itself, charged when the account was opened. */
  readonly baseBytes: number;
  /**
   * Sets how much memory this process holds for the client. May reset this connection or another one before it returns.
   */
  set(bytes: number): void;
  /** The connection has ended: releases its memory. Later calls of `set` do nothing. */
  close(): void;
}

/** Default share of V8's heap limit. */
const DEFAULT_HEAP_SHARE = 1 / 16;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;

/**
 * The share of the limit that connections themselves may take. The rest is for their clients' requests: otherwise a
 * client that opens as many connections as it can would make a legitimate client, which holds a little more, the one
 * that holds most.
 */
const CONNECTIONS_SHARE = 3 / 4;

/** All connections that hold less than 4 KiB besides themselves are in one class, the smallest. */
const CLASS_SHIFT = 12;
const CLASSES = 33;

/** The default for `CALLER_MEMORY_BYTES`: a sixteenth of V8's heap limit, 256 MiB at most. */
export const defaultCallerMemoryBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * DEFAULT_HEAP_SHARE), DEFAULT_MAX_BYTES);

/**
 * Bounds the memory held for all callers together beyond the read that delivered it: waiting requests, streams, bodies,
 * unread output. When the sum exceeds the limit, the connection that holds most besides itself is reset. It is found by
 * size class (powers of two) without a search, so it holds at least half as much as any other connection. Of those in
 * one class, it is the one that has been there longest: a client whose calls are answered leaves the class again and
 * again.
 */
export class CallerMemory {
  readonly maxBytes: number;
  /**
   * Open accounts by size class, within a class in order of entry. Those that have shrunk stay until `#largest` finds
   * them, or they grow.
   */
  readonly #classes: readonly Set<Account>[] = Array.from({ length: CLASSES }, () => new Set<Account>());
  #bytes = 0;
  /** The part of `#bytes` charged for connections themselves. */
  #baseBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
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
   * Opens the account of a connection.
   *
   * @param bytes  memory of the connection itself
   * @param reset  ends the connection at once; called at most once, after its account was closed
   * @returns undefined if there is no room: connections take their share, or no other one is in a larger size class
   */
  open(bytes: number, reset: () => void): MemoryAccount | undefined {
    if (this.#baseBytes + bytes > this.maxBytes * CONNECTIONS_SHARE) return undefined;
    const account = new Account(bytes, this.#move, reset);
    if (this.#bytes + bytes > this.maxBytes) {
      const largest = this.#largest();
      if (!largest || largest.sizeClass === 0) return undefined;
    }
    account.isOpen = true;
    this.#baseBytes += bytes;
    this.#classes[account.sizeClass]?.add(account);
    account.set(bytes);
    return account;
  }

  /** Until then the order within a class does not matter. */
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

  #forget(account: Account): void {
    this.#baseBytes -= account.baseBytes;
    this.#classes[account.sizeClass]?.delete(account);
  }

  #moveTo(account: Account, sizeClass: number): void {
    this.#classes[account.sizeClass]?.delete(account);
    account.sizeClass = sizeClass;
    account.hasLeft = false;
    this.#classes[sizeClass]?.add(account);
  }

  #makeRoom(): void {
    for (let largest = this.#largest(); largest && this.#bytes > this.maxBytes; largest = this.#largest()) {
      largest.close();
      largest.reset();
    }
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

class Account implements MemoryAccount {
  readonly baseBytes: number;
  readonly #move: (account: Account, bytes: number) => void;
  readonly reset: () => void;
  bytes = 0;
  /** Where it is listed. */
  sizeClass = 0;
  /** It has become too small for that class since it entered. */
  hasLeft = false;
  isOpen = false;

  constructor(baseBytes: number, move: (account: Account, bytes: number) => void, reset: () => void) {
    this.baseBytes = baseBytes;
    this.#move = move;
    this.reset = reset;
  }

  /** What it holds besides itself. */
  get clientBytes(): number {
    return this.bytes - this.baseBytes;
  }

  set(bytes: number): void {
    if (this.isOpen && bytes !== this.bytes) this.#move(this, bytes);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#move(this, 0);
  }
}

/** @param bytes  besides those of the connection itself */
const sizeClassOf = (bytes: number): number => 32 - Math.clz32(Math.max(bytes, 0) >>> CLASS_SHIFT);
